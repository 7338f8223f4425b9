// SPDX-License-Identifier: Apache-2.0
#include "bench/gemm.h"

#include <fmt/format.h>

#include <cstdio>

#include "base/quantity.h"
#include "ops/gpu/gpu.h"
#include "ops/runtime.h"

namespace hearth::bench {

ExitCode run_bench_gemm(const config::BenchGemmOptions& options) {
  const at::Device device = ops::open_device(options.device);
  const DType dtype = options.dtype == "bfloat16"  ? DType::kBFloat16
                      : options.dtype == "float64" ? DType::kFloat64
                                                   : DType::kFloat32;
  const double flops = ops::measure_gemm_flops(device, dtype);
  if (options.json) {
    fmt::print("{{\"gemm_flops\": {}}}\n", flops);
  } else {
    fmt::print("{}/s in products of {}, {}\n", format_flops(flops), dtype_name(dtype),
               device.is_cpu() ? counted(ops::num_threads(), "thread") : ops::open_gpu().name);
  }
  std::fflush(stdout);
  return ExitCode::kDone;
}

}  // namespace hearth::bench
