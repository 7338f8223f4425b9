// SPDX-License-Identifier: Apache-2.0
// `hearth bench gemm`: the rate of large matrix products on this machine. mfu is relative to this rate, and `hearth
// plan` estimates a step's time from it.
#pragma once

#include "base/error.h"
#include "config/options.h"

namespace hearth::bench {

ExitCode run_bench_gemm(const config::BenchGemmOptions& options);

}  // namespace hearth::bench
