// SPDX-License-Identifier: Apache-2.0
// The options of `hearth bench gemm`.
#include "commands/torch_options.h"

namespace hearth::commands {

std::optional<config::BenchGemmOptions> bench_gemm_options(CommandLine& line) {
  config::BenchGemmOptions options;
  line.option("--device NAME", &options.device, one_of({"cpu", "cuda"}), "the device: cpu, or cuda for a GPU");
  line.option("--dtype NAME", &options.dtype, one_of({"float32", "bfloat16", "float64"}),
              "of both factors and the product");
  line.option("--threads N", &options.threads, within(0, 4096), "CPU threads; 0 means all it may use");
  line.flag("--json", &options.json, "print one JSON object");
  if (!line.parse()) return std::nullopt;
  return options;
}

}  // namespace hearth::commands
