// SPDX-License-Identifier: Apache-2.0
#include "plan/memory.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "base/quantity.h"
#include "base/text.h"
#include "config/derived.h"
#include "models/flops.h"
#include "plan/muon.h"
#include "plan/name_pattern.h"
#include "plan/scratch.h"
#include "plan/stage_activations.h"

namespace hearth::plan {
namespace {

using Levels = std::vector<Recompute>;

// The levels of memory.recompute are those of the model, and "auto" behind them.
static_assert(static_cast<int>(config::RecomputeChoice::kNone) == static_cast<int>(Recompute::kNone) &&
              static_cast<int>(config::RecomputeChoice::kNorms) == static_cast<int>(Recompute::kNorms) &&
              static_cast<int>(config::RecomputeChoice::kAttention) == static_cast<int>(Recompute::kAttention) &&
              static_cast<int>(config::RecomputeChoice::kBlock) == static_cast<int>(Recompute::kBlock));
std::string_view name_of(Recompute level) { return config::name_of(static_cast<config::RecomputeChoice>(level)); }

// For each pair of levels: the fewest first layers of the dearer level that fit. The cheapest of these pairs wins. If
// none fits: the smallest plan. Each further dearer layer needs less memory. The last layer is an exception: its kept
// activations are used at once.
template <typename LevelsOf, typename Bytes>
Levels cheapest_that_fits(const ModelShape& s, int64_t seq_len, int64_t num_layers, const LevelsOf& levels_of,
                          int64_t limit_bytes, const Bytes& bytes_at) {
  using enum Recompute;
  std::optional<Levels> best;
  double best_flops = 0;
  std::vector<int64_t> counts(static_cast<size_t>(num_layers));
  std::iota(counts.begin(), counts.end(), 0);
  for (const auto& pair : kRecomputePairs) {
    const auto levels = [&](int64_t count) { return levels_of(count, pair.first, pair.second); };
    const auto fits = [&](int64_t count) { return bytes_at(levels(count)) <= limit_bytes; };
    const auto first_fit = std::ranges::partition_point(counts, [&](int64_t count) { return !fits(count); });
    const int64_t count = first_fit - counts.begin();
    if (count == num_layers && !fits(count)) continue;
    const double flops = recompute_flops_per_token(s, seq_len, levels(count));
    if (best && flops >= best_flops) continue;
    best = levels(count);
    best_flops = flops;
  }
  if (best) return *best;
  const Levels all = levels_of(num_layers, kBlock, kBlock), all_but_one = levels_of(num_layers - 1, kBlock, kNorms);
  return bytes_at(all) <= bytes_at(all_but_one) ? all : all_but_one;
}

int64_t slots_bytes(const std::vector<SlotPool>& pools, DType dtype) {
  int64_t bytes = 0;
  for (const SlotPool& pool : pools) bytes += pool.count * aligned_bytes(pool.numel, dtype);
  return bytes;
}

// Memory of a rank other than weights and activations. `threads`: the rank's CPU threads; 0: on a GPU.
std::vector<MemoryItem> work_memory(const config::RunConfig& config, const ModelShape& shape,
                                    const ParameterPlan& parameters, const Precision& precision, int64_t threads) {
  std::vector<MemoryItem> items;
  const Shards shards = shards_of(config.parallelism);
  const MuonScratch muon = muon_scratch(trained_muon_matrices(config, parameters), parameters, shards);
  if (muon.num_bytes(precision) > 0) items.push_back({"Newton-Schulz", muon.num_bytes(precision)});
  const int64_t sums = num_partial_sums(config::accumulation_steps(config), sharding_of(config), shards.dense);
  int64_t gradients = 0, largest = 0;
  for (const Unit& unit : parameters.units) {
    const int64_t ranks = shards.of(unit), slice = slice_numel(unit, ranks);
    gradients += aligned_bytes(slice, precision.gradients);
    largest = std::max(largest, aligned_bytes(slice * ranks, precision.gradients));
  }
  if (sums > 0) items.push_back({fmt::format("{} partial sums of gradients", sums), sums * gradients});
  if (threads == 0) {
    // NCCL's sums in order keep the parts of all ranks, and those between replicas a padded copy, too.
    const int64_t replicas = config.parallelism.data_parallel_replicate_degree;
    if (config.numerics.reproducible && shards.dense * replicas > 1)
      items.push_back({"sums of gradients in order", (replicas > 1 ? 2 : 1) * largest});
    return items;
  }
  const ScratchPlan scratch =
      scratch_plan(shape, config::micro_batch_size(config), config.training.seq_len, precision.compute);
  items.push_back({"kernels, of all threads", scratch.shared_bytes});
  items.push_back({fmt::format("kernels, {} thread{}", threads, threads > 1 ? "s" : ""), threads * scratch.task_bytes});
  return items;
}

}  // namespace

std::vector<MemoryItem> weights_memory(const ParameterPlan& plan, const Precision& p, const Shards& shards,
                                       const Sharding& sharding, const std::vector<bool>& trained,
                                       const std::vector<bool>& momentum_only) {
  const bool whole_weights = sharding.has_whole_weights(shards.dense, p);
  int64_t weights = slots_bytes(weight_slots(plan, shards, sharding, p), p.compute);
  int64_t masters = 0, gradients = 0, moments = 0, momentum = 0;
  for (const Unit& unit : plan.units) {
    const int64_t ranks = shards.of(unit), shard = slice_numel(unit, ranks);
    const bool whole = sharding.has_whole_weights(ranks, p);
    if (whole) weights += aligned_bytes(ranks * shard, p.compute);
    if (!whole || p.masters != p.compute) masters += aligned_bytes(shard, p.masters);
    gradients += aligned_bytes(sharding.has_whole_gradients(ranks) ? ranks * shard : shard, p.gradients);
  }
  const int64_t slots = slots_bytes(gradient_slots(plan, shards, sharding), p.gradients);
  for (size_t i = 0; i < plan.parameters.size(); ++i) {
    const Parameter& parameter = plan.parameters[i];
    const Unit& unit = plan.units[static_cast<size_t>(parameter.unit)];
    const Slice slice = unit_slice(unit, 0, shards.of(unit));
    const int64_t owned = std::clamp<int64_t>(slice.end - parameter.offset, 0, parameter.numel);
    if (!trained.empty() && !trained[i]) continue;
    const bool has_momentum = !momentum_only.empty() && momentum_only[i];
    (has_momentum ? momentum : moments) += (has_momentum ? 1 : 2) * aligned_bytes(owned, p.moments);
  }
  const auto slots_of = [](bool whole) { return whole ? "" : "blocks in use, "; };
  std::vector<MemoryItem> items = {
      {fmt::format("weights, {}{}", slots_of(whole_weights), dtype_name(p.compute)), weights}};
  if (masters > 0) items.push_back({fmt::format("master weights, {}", dtype_name(p.masters)), masters});
  items.push_back({fmt::format("gradients, {}", dtype_name(p.gradients)), gradients});
  if (slots > 0) items.push_back({fmt::format("gradients, {}{}", slots_of(false), dtype_name(p.gradients)), slots});
  if (momentum > 0) items.push_back({fmt::format("momentum, {}", dtype_name(p.moments)), momentum});
  items.push_back({fmt::format("moments, {}", dtype_name(p.moments)), moments});
  return items;
}

int64_t snapshot_bytes(const config::RunConfig& config, const ParameterPlan& parameters, const Precision& precision) {
  const std::vector<bool> trained = trained_parameters(config.checkpoint.freeze, parameters);
  const std::vector<bool> momentum_only = muon_matrices(config.optimizer, parameters);
  const Shards shards = shards_of(config.parallelism);
  const config::Parallelism& ranks = config.parallelism;
  const int64_t replicas = ranks.data_parallel_replicate_degree;
  std::vector<int64_t> bytes(static_cast<size_t>(shards.dense * replicas));
  for (size_t i = 0; i < parameters.parameters.size(); ++i) {
    const Parameter& p = parameters.parameters[i];
    if (!p.counts) continue;  // another rank saves it
    const int64_t states = !trained[i] ? 0 : !momentum_only.empty() && momentum_only[i] ? 1 : 2;
    const int64_t replica = static_cast<int64_t>(i) % replicas;  // they take the parameters in turn
    const Unit& unit = parameters.units[static_cast<size_t>(p.unit)];
    for (int64_t shard = 0; shard < shards.dense; ++shard) {
      const bool apart = unit.of_experts && ranks.expert_parallel_degree > 1;
      const int64_t number = apart ? shard * ranks.tensor_parallel_degree / ranks.expert_parallel_degree : shard;
      const Slice slice = unit_slice(unit, number, shards.of(unit));
      const int64_t begin = std::clamp<int64_t>(slice.begin - p.offset, 0, p.numel);
      const int64_t owned = std::clamp<int64_t>(slice.end - p.offset, begin, p.numel) - begin;
      bytes[static_cast<size_t>(replica * shards.dense + shard)] +=
          aligned_bytes(owned, precision.masters) + states * aligned_bytes(owned, precision.moments);
    }
  }
  return *std::max_element(bytes.begin(), bytes.end());
}

SampleBatch sample_batch(const config::RunConfig& config, int64_t longest) {
  const auto prompts = std::ssize(config.validation.generate);
  // A multiple of the tensor-parallel ranks, which share the rows of the stream.
  const int64_t step = 16 * config.parallelism.tensor_parallel_degree;
  // No more tokens at a time than a micro-batch of the training has.
  return {.B = std::min(prompts, config::micro_batch_size(config)),
          .S = round_up(std::min(longest, config.training.seq_len), step)};
}

bool samples_are_cached(const config::RunConfig& config) {
  const config::Parallelism& p = config.parallelism;
  return !config.objective.masked() && p.tensor_parallel_degree == 1 && p.pipeline_parallel_degree == 1 &&
         p.expert_parallel_degree == 1;
}

namespace {

// The tables of ops::rope_tables: of queries and keys, and of layers with a rope of their own.
int64_t rope_tables_of(const ModelShape& s) {
  const bool has_local =
      std::any_of(s.layers.begin(), s.layers.end(), [](const models::Layer& layer) { return layer.local_rope; });
  const int64_t ropes = has_local ? 2 : 1;
  return s.rope.scales_queries() ? 2 * ropes : ropes;
}

}  // namespace

int64_t cached_positions(const models::Layer& layer, int64_t capacity) {
  return layer.window > 0 ? std::min(layer.window, capacity) : capacity;
}

namespace {

// A decode::Decoder has the cache of all rows, a forward of one row, and forwards of a token of each row. These have
// logits of their own for each number of rows, while rows end one after the other.
int64_t cached_sample_bytes(const ModelShape& shape, SampleBatch batch, DType dtype) {
  constexpr int64_t kMostForwards = 4;
  const auto forward = [&](int64_t tokens, int64_t logits) {
    return activation_plan(shape, 1, tokens, dtype, logits, Backward::kNone).total_bytes;
  };
  int64_t cache = 0;
  for (const models::Layer& layer : shape.layers)
    cache += 2 * aligned_bytes(batch.B * cached_positions(layer, batch.S) * shape.G * shape.K, dtype);
  return cache + forward(batch.S, 1) + std::min(batch.B, kMostForwards) * forward(batch.B, batch.B);
}

}  // namespace

int64_t sample_bytes(const config::RunConfig& config, const ModelShape& shape, const Precision& precision,
                     int64_t pipeline_rank) {
  const config::Validation& validation = config.validation;
  if (validation.freq == 0 || validation.generate.empty()) return 0;
  constexpr int64_t kSpecialTokens = 3;  // around a document
  int64_t longest = 0;
  for (const std::string& prompt : validation.generate) {
    const int64_t given = prompt.ends_with(".npy") ? config.training.seq_len : std::ssize(prompt) + kSpecialTokens;
    longest = std::max(longest, given + (config.objective.masked() ? 0 : validation.generate_tokens));
  }
  const SampleBatch batch = sample_batch(config, longest);
  if (samples_are_cached(config)) return cached_sample_bytes(shape, batch, precision.compute);
  ModelShape sparse = shape;
  sparse.sparse_labels = true;
  return sum_of_stages(stage_activations(sparse, batch.B, batch.S, precision.compute, kSampleLossChunkTokens,
                                         /*training=*/false, {}, pipeline_plan(config, shape.L()), pipeline_rank))
      .total_bytes;
}

MemoryPlan memory_plan(const config::RunConfig& config, const ModelShape& shape, const ParameterPlan& parameters,
                       const Precision& precision, int64_t memory_bytes, int64_t ranks_here, int64_t cpu_threads,
                       int64_t pipeline_rank, std::span<const Recompute> levels, int64_t samples) {
  const int64_t B = config::micro_batch_size(config), S = config.training.seq_len;
  const PipelinePlan pipeline = pipeline_plan(config, shape.L());
  const std::vector<StageLayers> stages = pipeline.stages_of(pipeline_rank);
  const auto levels_of = [&](int64_t count, Recompute first, Recompute others) {
    Levels all(static_cast<size_t>(shape.L()), Recompute::kNone);
    set_levels(all, stages, count, first, others);
    return all;
  };
  int64_t num_layers = 0, num_first = 0;  // of this rank; of these, the ones that memory.recompute_layers counts
  for (const StageLayers& stage : stages) {
    num_layers += stage.size();
    num_first += config.memory.recompute_layers < 0
                     ? stage.size()
                     : std::clamp<int64_t>(config.memory.recompute_layers - stage.begin, 0, stage.size());
  }
  MemoryPlan plan;
  plan.ranks_here = ranks_here;
  plan.shards_more = config.parallelism.shards() > 1 && config.parallelism.zero_stage < 3;
  plan.beside = beside_tensors(config, shape);
  plan.limit_bytes = memory_bytes;
  for (const MemoryItem& item : plan.beside) plan.limit_bytes -= item.bytes;
  if (const auto limit = parse_bytes(config.memory.limit)) plan.limit_bytes = std::min(plan.limit_bytes, *limit);
  plan.weights = weights_memory(parameters, precision, shards_of(config.parallelism), sharding_of(config),
                                trained_parameters(config.checkpoint.freeze, parameters),
                                muon_matrices(config.optimizer, parameters));
  for (const MemoryItem& item : plan.weights) plan.weights_bytes += item.bytes;
  const int64_t threads = cpu_threads == 0 ? 0 : std::max<int64_t>(1, cpu_threads / ranks_here);
  plan.work = work_memory(config, shape, parameters, precision, threads);
  if (samples > 0) plan.work.push_back({"texts of validation.generate", samples});
  for (const MemoryItem& item : plan.work) plan.work_bytes += item.bytes;
  plan.table_bytes =
      rope_tables_of(shape) * aligned_bytes(S * shape.rope.rotary_width(shape.K),
                                            precision.compute == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32);

  const bool on_cpu = config.training.device == config::DeviceKind::kCpu;
  const int64_t chunk = loss_chunk(config.memory.loss_chunk_tokens, shape, precision.compute, !on_cpu);
  const auto at = [&](const Levels& levels) {
    return sum_of_stages(
        stage_activations(shape, B, S, precision.compute, chunk, /*training=*/true, levels, pipeline, pipeline_rank));
  };
  if (!on_cpu) plan.workspace_bytes = gpu_workspace_bytes(shape, B * S, precision, config.numerics.float8());
  // A recorded graph keeps a workspace of its own, in addition to that of steps that are not recorded.
  if (config.training.cuda_graph) plan.workspace_bytes *= 2;
  if (config.checkpoint.async_mode == config::AsyncMode::kAsync)
    (on_cpu ? plan.copy_bytes : plan.host_bytes) = snapshot_bytes(config, parameters, precision);
  const int64_t rest = plan.weights_bytes + plan.table_bytes + plan.work_bytes + plan.workspace_bytes + plan.copy_bytes;
  if (!levels.empty()) {
    plan.recompute.assign(levels.begin(), levels.end());
  } else if (config.memory.recompute == config::RecomputeChoice::kAuto) {
    plan.recompute = cheapest_that_fits(shape, S, num_layers, levels_of, plan.limit_bytes / ranks_here - rest,
                                        [&](const Levels& l) { return at(l).total_bytes; });
  } else {
    plan.recompute = levels_of(num_first, static_cast<Recompute>(config.memory.recompute), Recompute::kNone);
  }
  plan.activations = at(plan.recompute);
  plan.total_bytes = rest + plan.activations.total_bytes;
  return plan;
}

void set_levels(std::vector<Recompute>& levels, const std::vector<StageLayers>& stages, int64_t count, Recompute first,
                Recompute others) {
  for (const StageLayers& stage : stages)
    for (int64_t layer = stage.begin; layer < stage.end; ++layer)
      levels[static_cast<size_t>(layer)] = count-- > 0 ? first : others;
}

double recompute_flops_per_token(const ModelShape& s, int64_t seq_len, std::span<const Recompute> levels) {
  const models::ModelFlops model = models::model_flops(s, seq_len);
  double flops = 0;
  for (size_t layer = 0; layer < levels.size(); ++layer)
    flops += model.layers[layer].again[static_cast<size_t>(levels[layer])];
  return flops;
}

std::string describe(std::span<const Recompute> levels) {
  const auto others = static_cast<size_t>(std::count(levels.begin(), levels.end(), levels.back()));
  if (others == levels.size()) return std::string(name_of(levels.back()));
  return fmt::format("{} in {} of {} layers, {} in the others", name_of(levels.front()), levels.size() - others,
                     levels.size(), name_of(levels.back()));
}

std::vector<MemoryItem> memory_items(const MemoryPlan& plan) {
  std::vector<MemoryItem> items = plan.weights;
  items.push_back({"rotary table", plan.table_bytes});
  items.insert(items.end(), plan.work.begin(), plan.work.end());
  if (plan.workspace_bytes > 0) items.push_back({"GPU kernels' workspace", plan.workspace_bytes});
  if (plan.copy_bytes > 0) items.push_back({"copy for checkpoints", plan.copy_bytes});
  items.push_back({"activations", plan.activations.total_bytes});
  return items;
}

std::vector<MemoryItem> peak_activations(const MemoryPlan& plan) {
  std::vector<MemoryItem> items;
  for (const auto& [name, bytes] : plan.activations.at_peak)
    if (bytes > 0) items.push_back({std::string(name), bytes});
  std::stable_sort(items.begin(), items.end(), [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  if (const int64_t holes = plan.activations.total_bytes - plan.activations.peak_bytes; holes > 0)
    items.push_back({"between them", holes});
  return items;
}

namespace {

std::string total_text(const MemoryPlan& plan) {
  const auto [total, limit] = format_bytes_apart(plan.total_bytes, plan.limit_bytes);
  return fmt::format("  memory       {} of tensors{}, of {}", total,
                     plan.ranks_here > 1 ? fmt::format(" for each of {} ranks", plan.ranks_here) : "", limit);
}

}  // namespace

std::string format_memory_total(const MemoryPlan& plan) {
  return fmt::format("{}; recomputed: {}\n", total_text(plan), describe(plan.recompute));
}

std::string format_memory(const MemoryPlan& plan) {
  std::string text = total_text(plan) + "\n";
  const auto line = [&](std::string_view name, int64_t bytes) {
    text += fmt::format("    {:34} {:>10}\n", name, format_bytes(bytes));
  };
  for (const MemoryItem& item : memory_items(plan)) line(item.name, item.bytes);
  text += fmt::format("      recomputed: {}; most is alive at \"{}\":\n", describe(plan.recompute),
                      plan.activations.peak_step);
  for (const MemoryItem& item : peak_activations(plan)) line("  " + item.name, item.bytes);
  text += format_beside(plan);
  if (plan.host_bytes > 0)
    text += fmt::format("  host memory  {} for each rank: the copy for checkpoints (checkpoint.async_mode)\n",
                        format_bytes(plan.host_bytes));
  return text;
}

void require_fits(const MemoryPlan& plan, std::string_view others) {
  if (plan.fits()) return;
  if (plan.limit_bytes <= 0) {
    int64_t kept = 0;
    std::vector<std::string> names;
    for (const MemoryItem& item : plan.beside) {
      kept += item.bytes;
      names.push_back(fmt::format("{} {}", item.name, format_bytes(item.bytes)));
    }
    throw user_error(fmt::format("no memory is left for tensors: {} of {} are kept free", format_bytes(kept),
                                 format_bytes(std::max<int64_t>(0, plan.limit_bytes + kept))),
                     join(names), "lower memory.margin, or take a device with more memory");
  }
  const bool all = std::all_of(plan.recompute.begin(), plan.recompute.end(),
                               [](Recompute level) { return level >= Recompute::kNorms; }) &&
                   plan.recompute.front() == Recompute::kBlock;
  const int64_t rest = plan.total_bytes - plan.weights_bytes - plan.activations.total_bytes - plan.copy_bytes;
  const bool weights_alone = plan.weights_bytes * plan.ranks_here > plan.limit_bytes;
  const auto [needed, there] = format_bytes_apart(plan.total_bytes * plan.ranks_here, plan.limit_bytes);
  throw user_error(
      fmt::format("the training needs {} of memory, and there are {}", needed, there),
      fmt::format("{}weights, gradients and moments take {}, activations {} with recomputation of {}{}{}",
                  plan.ranks_here > 1 ? fmt::format("on each of {} ranks ", plan.ranks_here) : "",
                  format_bytes(plan.weights_bytes), format_bytes(plan.activations.total_bytes),
                  describe(plan.recompute),
                  rest * 20 > plan.total_bytes ? fmt::format(", and kernels work in {}", format_bytes(rest)) : "",
                  plan.copy_bytes > 0
                      ? fmt::format(", and the copy of checkpoint.async_mode takes {}", format_bytes(plan.copy_bytes))
                      : ""),
      !others.empty() ? fmt::format("take a layout that fits these ranks, with memory.recompute = \"auto\": {}", others)
      : weights_alone && plan.shards_more
          ? "give parallelism.zero_stage = 3: ranks then share weights and gradients, too"
      : weights_alone ? "no recomputation helps: take more devices with parallelism.zero_stage = 3, a smaller model, "
                        "optimizer.moments_dtype = \"bfloat16\", or more memory"
      : all           ? "lower training.local_batch_size, training.seq_len or the size of the model, or give "
                        "memory.loss_chunk_tokens = 256"
                      : "set memory.recompute = \"auto\", or lower training.local_batch_size");
}

}  // namespace hearth::plan
