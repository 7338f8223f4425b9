// SPDX-License-Identifier: Apache-2.0
// `hearth bench ops`: the speed of every kernel alone, for a given shape, compared with the machine's limit. The limit
// is the rate of a copy for kernels bound by memory, and of a GEMM for kernels bound by arithmetic.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "config/options.h"

namespace hearth::bench {

struct KernelTiming {
  std::string name;
  double median_s = 0;
  double bytes = 0;       // the least that must be read and written: each operand once
  double flops = 0;       // of the products alone, causal attention counted as half; 0 for kernels bound by memory
  double times_aten = 0;  // speed relative to ATen's: the median over rounds in alternation; 0: not compared
};

struct OpsTiming {
  double copy_bytes_per_s = 0;  // read and written
  double gemm_flops = 0;        // per second
  std::vector<KernelTiming> kernels;
};

// Runs each kernel options.warmup times, then options.steps timed times.
OpsTiming time_ops(const config::BenchStepOptions& options);

std::string format_ops(const OpsTiming& timing);  // for display
std::string ops_json(const OpsTiming& timing);    // one JSON object

ExitCode run_bench_ops(const config::BenchStepOptions& options);

}  // namespace hearth::bench
