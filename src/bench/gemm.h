// `hearth bench gemm`: what large matrix products reach on this machine, the number that mfu is a share of and that
// `hearth plan` counts a step's time from.
#pragma once

#include "base/error.h"
#include "config/bench_options.h"

namespace hearth::bench {

ExitCode run_bench_gemm(const config::BenchGemmOptions& options);

}  // namespace hearth::bench
