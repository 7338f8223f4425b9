// SPDX-License-Identifier: Apache-2.0
// `hearth bench comm`: how fast ranks talk to each other: the time of a message, and the rates of the collectives.
#pragma once

#include "base/error.h"
#include "comm/join.h"
#include "config/options.h"

namespace hearth::bench {

// Collective; rank 0 prints. `began_s`: when the start of the ranks began, on metrics::monotonic_seconds()' clock.
ExitCode run_bench_comm(const config::BenchCommOptions& options, comm::Control& control,
                        const comm::MakeGroup& make_group, double began_s);

}  // namespace hearth::bench
