// `hearth bench ops`: how fast every kernel is on its own, at a given shape, against what the machine can do: the rate
// of a copy for those that memory bounds, that of a GEMM for those that arithmetic bounds.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "config/bench_options.h"

namespace hearth::bench {

struct KernelTiming {
  std::string name;
  double median_s = 0;
  double bytes = 0;       // read and written at the least: each operand once
  double flops = 0;       // of the products alone, causal attention counted as half; 0 where memory bounds
  double times_aten = 0;  // times as fast as ATen's: the median over rounds in alternation; 0: not compared
};

struct OpsTiming {
  double copy_bytes_per_s = 0;  // read and written
  double gemm_flops = 0;        // per second
  std::vector<KernelTiming> kernels;
};

// Each kernel options.warmup times, then options.steps times.
OpsTiming time_ops(const config::BenchStepOptions& options);

std::string format_ops(const OpsTiming& timing);  // for people
std::string ops_json(const OpsTiming& timing);    // one JSON object

ExitCode run_bench_ops(const config::BenchStepOptions& options);

}  // namespace hearth::bench
