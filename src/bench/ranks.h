// SPDX-License-Identifier: Apache-2.0
// Thousands of ranks on this host: what `hearth bench ranks` measures.
#pragma once

#include "base/error.h"
#include "config/options.h"

namespace hearth::bench {

// Starts options.ranks ranks, which exchange a training's messages but no tensors: they meet, agree about steps, save
// and load, and one of them dies. Each is a comm::ProcessControl with its own connections and threads; a process has
// many of them. Rank 0, one rank that collects other ranks' messages, and the last rank have a process each, so that
// their CPU time and bytes can be measured. Prints the times and bytes. Call it before the process has threads.
ExitCode run_bench_ranks(const config::BenchRanksOptions& options);

}  // namespace hearth::bench
