// SPDX-License-Identifier: Apache-2.0
#include "run/compute_device.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>
#include <vector>

#include "base/error_list.h"
#include "comm/join.h"
#include "config/derived.h"
#include "machine/device.h"
#include "ops/gpu/gpu.h"
#include "ops/gpu/graph.h"
#include "ops/runtime.h"

namespace hearth::run {

at::Device open_rank_device(comm::Control& control, const std::string& name) {
  if (name == "cpu") return at::kCPU;
  const comm::LocalPlace local = comm::local_place(control);
  at::Device device = at::kCPU;
  control.together("the ranks' GPUs", [&] {
    ops::choose_gpu(local.rank, local.size, control.size());
    device = ops::open_device(name);
  });
  return device;
}

at::Device open_compute_device(const config::RunConfig& config) {
  const at::Device device = ops::open_device(std::string(config::name_of(config.training.device)));
  if (!device.is_cpu() && config.numerics.reproducible) ops::fix_order_of_sums();
  if (!device.is_cpu() && config.training.cuda_graph) {
    ErrorList errors;
    errors.attempt_about("training.cuda_graph", ops::open_graphs);
    errors.throw_if_any({});
  }
  return device;
}

void check_float8(const ops::Gpu& gpu, const config::RunConfig& config, const plan::ModelShape& shape) {
  if (!config.numerics.fp8) return;
  if (!gpu.has_float8())
    throw user_error(fmt::format("numerics.fp8: {} cannot multiply in float8", gpu.name),
                     fmt::format("its compute capability is {}.{}, and float8 needs 8.9", gpu.major, gpu.minor),
                     "remove numerics.fp8");
  const bool sums = config.numerics.fp8_recipe == config::Fp8Recipe::kRowwise;
  if (sums && !gpu.has_float8_sums())
    throw user_error(
        fmt::format("numerics.fp8_recipe = \"rowwise\": {} cannot add products of float8 to float32", gpu.name),
        fmt::format("its compute capability is {}.{}, and cuBLASLt has a factor for each row on 9.0 only", gpu.major,
                    gpu.minor),
        "set numerics.fp8_recipe = \"rowwise_hp_wgrad\": gradients of weights stay in bfloat16");
  const int64_t tensor = config.parallelism.tensor_parallel_degree;
  std::vector<std::pair<const char*, int64_t>> widths = {
      {"model.dim", shape.D},
      {"the width of all heads", shape.H / tensor * shape.K},
      {"the width of queries, keys and values", (shape.H + 2 * shape.G) / tensor * shape.K}};
  for (const models::Layer& layer : models::layer_kinds(shape).kinds)
    widths.emplace_back("the feed-forward width", layer.F / tensor);
  for (const auto& [name, width] : widths) {
    if (width % 16 != 0)
      throw user_error(fmt::format("numerics.fp8: {}{} is {}, which is not a multiple of 16", name,
                                   tensor > 1 ? " on one of the tensor-parallel ranks" : "", width),
                       "the GPU's float8 products need a multiple of 16", "remove numerics.fp8, or change the shape");
  }
  const int64_t tokens =
      config::micro_batch_size(config) * config.training.seq_len / config.parallelism.context_parallel_degree;
  if (sums && tokens % 16 != 0)
    throw user_error(
        fmt::format("numerics.fp8_recipe = \"rowwise\": a rank's micro-batch has {} tokens, not a multiple of 16",
                    tokens),
        "the gradients of weights are sums over them, and the GPU's float8 products need a multiple of 16",
        "change training.seq_len or training.local_batch_size, or set numerics.fp8_recipe = \"rowwise_hp_wgrad\"");
}

int64_t available_memory(at::Device device) {
  return device.is_cpu() ? machine::this_machine().memory_bytes : ops::open_gpu().free_bytes;
}

double gemm_flops(at::Device device, DType dtype, int64_t threads) {
  static std::mutex mutex;
  static std::map<std::tuple<at::DeviceType, DType, int64_t>, double> measured;
  const std::lock_guard lock(mutex);
  const auto [it, is_new] = measured.try_emplace({device.type(), dtype, threads}, 0);
  if (is_new) it->second = ops::measure_gemm_flops(device, dtype);
  return it->second;
}

double peak_flops(at::Device device, DType compute, int64_t threads) {
  const double of_compute = gemm_flops(device, compute, threads);
  return device.is_cpu() ? std::max(of_compute, gemm_flops(device, DType::kFloat32, threads)) : of_compute;
}

double peak_flops_now(at::Device device, DType compute) {
  const double of_compute = ops::measure_gemm_flops(device, compute);
  return device.is_cpu() ? std::max(of_compute, ops::measure_gemm_flops(device, DType::kFloat32)) : of_compute;
}

}  // namespace hearth::run
