// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <thread>

#include "base/quantity.h"
#include "config/derived.h"
#include "config/rules.h"

namespace hearth::config {

void check_decay_type(Rules& rules, const LrScheduler& s) {
  std::vector<DecayType> has = {DecayType::kLinear, DecayType::kCosine};
  switch (s.rule) {
    case ScheduleRule::kTorchtitan:
    case ScheduleRule::kTorchtitan2025:
      has.push_back(DecayType::kSqrt);
      break;
    case ScheduleRule::kTorchtitan2024:
      has.pop_back();
      break;
    case ScheduleRule::kNeox:
    case ScheduleRule::kNeox2023:
      has.push_back(DecayType::kExponential);
      break;
    case ScheduleRule::kTransformers:
      if (s.decay_ratio >= 0)
        has.push_back(DecayType::kSqrt);
      else
        has.insert(has.end(), {DecayType::kCosineWithRestarts, DecayType::kPolynomial});
      break;
  }
  std::string names;
  for (const DecayType type : has) names += fmt::format("{}\"{}\"", names.empty() ? "" : ", ", name_of(type));
  has.push_back(DecayType::kConstant);
  rules.require(std::find(has.begin(), has.end(), s.decay_type) != has.end(), "lr_scheduler.decay_type",
                "does not go with", "lr_scheduler.rule", fmt::format("use {} or \"constant\"", names));
}

namespace {

void check_update(Rules& rules, const Optimizer& o) {
  for (size_t i = 0; i < o.group.size(); ++i) {
    const std::string name = fmt::format("optimizer.group.{}", i);
    rules.require(!o.group[i].pattern.empty(), {name + ".pattern", name}, fmt::format("{}.pattern is not given", name),
                  "give a pattern of parameter names, such as \"*norm*\"");
    rules.require(o.group[i].lr_factor != 1 || o.group[i].weight_decay >= 0, {name + ".pattern", name},
                  fmt::format("{} changes nothing", name), "give it an lr_factor or a weight_decay");
  }
}

void check_muon(Rules& rules, const RunConfig& c) {
  if (c.optimizer.name != OptimizerName::kMuon) return;
  rules.require(
      c.training.device == DeviceKind::kCpu, {"optimizer.name", "training.device"},
      fmt::format("optimizer.name = \"Muon\" does not go with training.device = \"{}\": its kernels are for a CPU",
                  name_of(c.training.device)),
      "train on a CPU, or use \"AdamW\"");
  rules.require(!c.numerics.stochastic_rounding, {"numerics.stochastic_rounding", "optimizer.name"},
                "numerics.stochastic_rounding does not go with optimizer.name = \"Muon\": its update of a matrix is "
                "rounded to nearest",
                "remove one of them, or keep the weights in float32: training.dtype = \"float32\"");
}

void check_precision(Rules& rules, const RunConfig& c) {
  const Training& t = c.training;
  rules.require(t.dtype != DType::kFloat64 || t.mixed_precision_param == DType::kFloat32,
                "training.mixed_precision_param", "does not go with", "training.dtype",
                "remove one of them: float64 is computed in float64");
  rules.require(t.dtype != DType::kBFloat16 || t.mixed_precision_param == DType::kBFloat16,
                {"training.dtype", "training.mixed_precision_param"},
                "training.dtype = \"bfloat16\" needs training.mixed_precision_param = \"bfloat16\"",
                "give it: weights in bfloat16 are multiplied without conversion; or keep the weights in float32");
  rules.require(t.dtype != DType::kFloat64 || c.optimizer.moments_dtype == DType::kFloat32, "optimizer.moments_dtype",
                "does not go with", "training.dtype", "remove one of them: with float64 every tensor is float64");
}

void check_device(Rules& rules, const RunConfig& c) {
  const Training& t = c.training;
  const bool gpu = t.device == DeviceKind::kCuda;
  rules.require(!c.numerics.fp8 || (gpu && t.mixed_precision_param == DType::kBFloat16),
                {"numerics.fp8", "training.device", "training.mixed_precision_param"},
                "numerics.fp8 needs a GPU that computes in bfloat16",
                "remove it, or set training.device = \"cuda\" and training.mixed_precision_param = \"bfloat16\"");
  rules.require(!c.numerics.fp8 || !c.model.has_latents(), {"model.kv_lora_rank", "numerics.fp8"},
                "latent attention is not multiplied in float8", "remove numerics.fp8");
  rules.require(!t.cuda_graph || (!c.objective.masked() && c.model.attention_scope == AttentionScope::kWindow),
                {"training.cuda_graph", "objective.kind", "model.attention_scope"},
                "training.cuda_graph needs steps of one shape: hidden tokens and documents differ from batch to batch",
                "remove it, or train causally over whole windows");
  rules.require(!t.cuda_graph || c.parallelism.zero_stage == 1, {"training.cuda_graph", "parallelism.zero_stage"},
                "training.cuda_graph needs weights and gradients that keep their places",
                "remove it, or give parallelism.zero_stage = 1");
  const int64_t tensor = c.parallelism.tensor_parallel_degree, context = c.parallelism.context_parallel_degree;
  rules.require(t.seq_len % context == 0, "parallelism.context_parallel_degree", "does not divide", "training.seq_len",
                "each of these ranks has as many positions of every sequence: give another degree or seq_len");
  const int64_t tokens = micro_batch_size(c) * t.seq_len / context;
  rules.require(
      tokens % tensor == 0, {"parallelism.tensor_parallel_degree", "training.seq_len"},
      fmt::format("parallelism.tensor_parallel_degree = {} does not divide the {} tokens of a rank's micro-batch",
                  tensor, tokens),
      "each of these ranks keeps as many rows of the residual stream: give another degree, seq_len or "
      "local_batch_size");
  const int64_t pipeline = c.parallelism.pipeline_parallel_degree;
  rules.require(!t.cuda_graph || tensor * context * pipeline == 1,
                {"training.cuda_graph", tensor > 1    ? "parallelism.tensor_parallel_degree"
                                        : context > 1 ? "parallelism.context_parallel_degree"
                                                      : "parallelism.pipeline_parallel_degree"},
                "training.cuda_graph records no communication inside a micro-batch",
                "remove it, or let ranks share the batch and the weights alone (data_parallel_shard_degree)");
  rules.require(!gpu || t.dtype != DType::kFloat64, "training.dtype", "does not go with", "training.device",
                "remove one of them: float64 is for tests, on a CPU");
  const CommBackend backend = c.comm.backend;
  rules.require(!gpu || backend == CommBackend::kAuto || backend == CommBackend::kNccl, "comm.backend",
                "does not go with", "training.device", "remove it: tensors on GPUs go through NCCL or RCCL");
  rules.require(gpu || backend != CommBackend::kNccl || !c.comm.nccl_library.empty(), "comm.backend",
                "does not go with", "training.device", "remove it, or set training.device = \"cuda\"");
}

void check_pipeline(Rules& rules, const RunConfig& c) {
  const Parallelism& p = c.parallelism;
  if (p.pipeline_parallel_degree == 1) return;
  rules.require(c.training.local_batch_size % p.pipeline_parallel_microbatch_size == 0,
                "parallelism.pipeline_parallel_microbatch_size", "does not divide", "training.local_batch_size",
                "the sequences of a rank pass through the pipeline in micro-batches of this size: give a divisor");
  rules.require(p.pipeline_parallel_schedule != PipelineSchedule::kInterleavedZeroBubble || p.zero_stage == 1,
                {"parallelism.pipeline_parallel_schedule", "parallelism.zero_stage"},
                fmt::format("parallelism.pipeline_parallel_schedule = \"InterleavedZeroBubble\" does not go with "
                            "zero_stage = {}",
                            p.zero_stage),
                "it computes gradients of weights later and in parts, so they need a place of their own: give "
                "parallelism.zero_stage = 1, or the schedule Interleaved1F1B");
}

void check_reproducible(Rules& rules, const RunConfig& c) {
  if (!c.numerics.reproducible) return;
  rules.require(!c.parallelism.reduce_once_per_step, {"parallelism.reduce_once_per_step", "numerics.reproducible"},
                "parallelism.reduce_once_per_step does not go with numerics.reproducible",
                "remove one of them: the order of a reproducible sum begins with the ranks of each micro-batch");
  const int64_t ranks = c.parallelism.ranks(), threads = c.training.threads,
                data = c.parallelism.data_parallel_replicate_degree * c.parallelism.shards();
  rules.require((data & (data - 1)) == 0, {"parallelism.data_parallel_shard_degree", "numerics.reproducible"},
                fmt::format("numerics.reproducible does not go with {} data-parallel ranks", data),
                "give 1, 2, 4, 8, ...");
  const int64_t wanted = threads > 0 ? threads : int64_t{std::max(1U, std::thread::hardware_concurrency())};
  rules.require(
      threads > 0 && threads % ranks == 0, {"training.threads", "numerics.reproducible"},
      fmt::format("numerics.reproducible with training.threads = {} on {}", threads, counted(ranks, "rank")),
      fmt::format("give training.threads = {}: the same number for each rank, fixed for the whole run, for products "
                  "depend on it",
                  (wanted + ranks - 1) / ranks * ranks));
}

}  // namespace

void check_optimizer(Rules& rules, const RunConfig& c) {
  check_update(rules, c.optimizer);
  check_muon(rules, c);
  check_device(rules, c);
  check_pipeline(rules, c);
  check_precision(rules, c);
  check_reproducible(rules, c);
}

}  // namespace hearth::config
