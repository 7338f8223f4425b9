// SPDX-License-Identifier: Apache-2.0
// What a GPU needs beside a plan's buffers: workspaces of kernels, context, libraries, communicators and the margin.
#include <fmt/format.h>

#include <algorithm>

#include "base/quantity.h"
#include "base/text.h"
#include "plan/memory.h"

namespace hearth::plan {

int64_t num_communicators(const config::RunConfig& config, const ModelShape& shape) {
  const config::Parallelism& p = config.parallelism;
  if (p.ranks() == 1) return 0;
  const int64_t context = p.context_parallel_degree, replicas = p.data_parallel_replicate_degree;
  const bool staged = p.pipeline_parallel_degree > 1, shares_layers = p.tensor_parallel_degree > 1;
  const auto one_if = [](bool there) { return there ? int64_t{1} : int64_t{0}; };
  const int64_t keys = context == 1 ? 1 : shape.key_ranks;
  int64_t of_experts = 0;  // ranks with different experts; with the same ones; and of these, shards and replicas
  if (p.expert_parallel_degree > 1) {
    const int64_t shards = p.degrees().expert_shards();
    of_experts = 1 + one_if(shards * replicas > 1) + (replicas > 1 ? 1 + one_if(shards > 1) : 0);
  }
  return of_experts + 1 + one_if((staged || shares_layers) && p.shards() * replicas > 1) +  // ranks that add gradients
         one_if(context / keys > 1) + one_if(keys > 1) + one_if(shares_layers) + one_if(staged) +
         one_if(staged && config.model.enable_weight_tying) + (replicas > 1 ? 1 + one_if(p.shards() > 1) : 0);
}

int64_t margin_bytes(const config::RunConfig& config) {
  if (const auto given = parse_bytes(config.memory.margin)) return *given;
  const int64_t ranks = config.parallelism.ranks();
  constexpr int64_t kMiB = int64_t{1} << 20;
  return ranks == 1 ? 512 * kMiB : ranks <= 8 ? 2048 * kMiB : 4096 * kMiB;
}

std::vector<MemoryItem> beside_tensors(const config::RunConfig& config, const ModelShape& shape) {
  if (config.training.device == config::DeviceKind::kCpu) return {};
  std::vector<MemoryItem> items = {{"context", kContextBytes}, {"libraries", kLibrariesBytes}};
  if (const int64_t count = num_communicators(config, shape); count > 0)
    items.push_back({fmt::format("{} communicator{}", count, count > 1 ? "s" : ""), count * kCommunicatorBytes});
  items.push_back({"margin", margin_bytes(config)});
  return items;
}

std::string format_beside(const MemoryPlan& plan) {
  if (plan.beside.empty()) return "";
  int64_t bytes = 0;
  std::vector<std::string> parts;
  for (const MemoryItem& item : plan.beside) {
    bytes += item.bytes;
    parts.push_back(fmt::format("{} {}", item.name, format_bytes(item.bytes)));
  }
  return fmt::format("  beside them  {} of the GPU: {}\n", format_bytes(bytes), join(parts));
}

int64_t gpu_workspace_bytes(const ModelShape& s, int64_t W, const Precision& precision,
                            std::optional<config::Fp8Recipe> float8) {
  const int64_t T = W / s.context, rows = W / s.key_ranks, queries = rows * s.attention_heads() * s.K;
  const int64_t keys = W * s.attention_key_heads() * s.K;
  const int64_t statistics = rows * s.attention_heads() * dtype_size(DType::kFloat32);
  int64_t attention = statistics;  // for our own kernels
  if (precision.compute == DType::kBFloat16) {
    const int64_t expanded = s.H == s.G ? 0 : 2 * queries;
    attention = (queries + 2 * keys + expanded) * dtype_size(DType::kBFloat16) + queries * dtype_size(DType::kFloat32) +
                statistics;
  }
  const int64_t widest = std::max({s.ffn_width(), (s.H + 2 * s.G) * s.K, s.D});
  const int64_t weight = s.D * widest, rows_of_widest = T * widest;
  if (!float8) return attention;
  if (*float8 == config::Fp8Recipe::kRowwiseHpWgrad) return attention + rows_of_widest + weight;
  // Both gradients at once: the output's gradient by rows and by columns, and beside it the weight, then the input.
  return attention + 2 * rows_of_widest + std::max(weight, T * s.D) + kFloat8SumsBytes;
}

}  // namespace hearth::plan
