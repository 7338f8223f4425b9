// SPDX-License-Identifier: Apache-2.0
#include "model/transformer.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "model/pipeline.h"
#include "ops/moe/moe.h"
#include "ops/tensor.h"
#include "plan/stage_activations.h"
#include "trace/spans.h"

namespace hearth::model {

using plan::ActionKind;

namespace {

// A whole model is a pipeline of one stage.
plan::PipelinePlan pipeline_of(const plan::ModelShape& shape, const ComputeOptions& options) {
  if (options.pipeline == nullptr) return {{plan::PipelineSchedule::k1F1B, 1, 1, 1}, {{0, shape.L()}}};
  return options.pipeline_plan;
}

}  // namespace

Transformer::Transformer(const plan::ModelShape& shape, const plan::ParameterPlan& plan, int64_t B, int64_t S,
                         const ComputeOptions& options)
    : pipeline_(pipeline_of(shape, options).pipeline), group_(options.pipeline), num_layers_(shape.L()) {
  for (const models::Layer& layer : shape.layers) num_experts_ = std::max(num_experts_, layer.experts);
  const plan::PipelinePlan pipeline = pipeline_of(shape, options);
  const int64_t rank = group_ == nullptr ? 0 : group_->rank();
  HEARTH_CHECK(pipeline_.ranks == (group_ == nullptr ? 1 : group_->size()), "a pipeline of {}", pipeline_.ranks);
  std::vector<plan::ActivationPlan> plans = plan::stage_activations(
      shape, B, S, options.dtype, options.loss_chunk_tokens, options.training, options.recompute, pipeline, rank);
  const plan::ActivationBytes all = plan::sum_of_stages(plans);
  ops::Arena arena(all.total_bytes, options.device);
  ActivationMemory memory{.shared = arena.take({all.shared_bytes}, DType::kUInt8),
                          .slots = {},
                          .ropes = model_ropes(shape, S, S, options.dtype, options.device)};
  memory_bytes_ = all.total_bytes + bytes_of(memory.ropes);
  for (size_t i = 0; i < plans.size(); ++i) {
    memory.slots = arena.take({plans[i].num_slots * plans[i].slot_bytes}, DType::kUInt8);
    stages_.emplace_back(plan, Activations(std::move(plans[i]), options, memory));
  }
}

// The transfers under way use the activations.
Transformer::~Transformer() {
  if (group_ != nullptr) group_->stream().finish();
}

at::Tensor Transformer::no_router_metrics() const {
  if (num_experts_ == 0) return {};
  return ops::zeros({num_layers_, ops::kNumRouterSums + num_experts_}, DType::kFloat64, device());
}

void Transformer::loss(const at::Tensor& sums_M2, Weights& weights, std::span<const MicroBatch> batches) {
  run({sums_M2, weights, batches, {}});
}

void Transformer::loss_and_gradient(const at::Tensor& sums_M2, Weights& weights, std::span<const MicroBatch> batches,
                                    std::span<const LossScale> scales) {
  HEARTH_CHECK(scales.size() == batches.size(), "{} scales for {} micro-batches", scales.size(), batches.size());
  run({sums_M2, weights, batches, scales});
}

ops::CrossEntropy Transformer::loss(Weights& weights, const MicroBatch& batch) {
  const at::Tensor sums_12 = ops::zeros({1, 2}, DType::kFloat64, device());
  loss(sums_12, weights, std::span(&batch, 1));
  return ops::read_sums(sums_12.select(0, 0));
}

ops::CrossEntropy Transformer::loss_and_gradient(Weights& weights, const MicroBatch& batch, double scale,
                                                 double z_factor) {
  const at::Tensor sums_12 = ops::zeros({1, 2}, DType::kFloat64, device());
  const Activations& a = stages_.front().activations();
  const double per_position = 1 / static_cast<double>(a.B() * a.S());
  const LossScale scaled{ops::from_float64(std::span(&scale, 1), device()), z_factor, per_position};
  loss_and_gradient(sums_12, weights, std::span(&batch, 1), std::span(&scaled, 1));
  return ops::read_sums(sums_12.select(0, 0));
}

at::Tensor Transformer::logits(Weights& weights, const at::Tensor& positions_N) {
  return stages_.back().logits(weights, positions_N);
}

void Transformer::run(const Call& call) {
  const auto stage_of = [this](const plan::PlacedAction& placed) -> Stage& {
    Stage& stage = stages_[static_cast<size_t>(placed.action.stage / pipeline_.ranks)];
    stage.use_slot(placed.slot);
    return stage;
  };
  run_pipeline(pipeline_, schedule_of(call), group_,
               {.compute = [&](const auto& placed) { compute(stage_of(placed), placed.action, call); },
                .transferred =
                    [&](const auto& placed) {
                      const bool is_input = placed.action.kind == ActionKind::kRecvForward;
                      return is_input ? stage_of(placed).input() : stage_of(placed).output();
                    }});
}

void Transformer::compute(Stage& stage, const plan::Action& action, const Call& call) {
  const auto micro_batch = static_cast<size_t>(action.micro_batch);
  const MicroBatch& batch = call.batches[micro_batch];
  const bool has_output = stage.activations().shape().has_output(), trains = !call.scales.empty();
  const auto sums_2 = [&] { return call.sums_M2.select(0, action.micro_batch); };
  switch (action.kind) {
    case ActionKind::kForward: {
      const trace::SpanScope span(trace::SpanKind::kPhase, "forward");
      stage.forward(call.weights, batch);
      if (has_output && !trains) stage.loss(sums_2(), call.weights, batch);
      return;
    }
    case ActionKind::kBackward:
    case ActionKind::kInputGradient: {
      const trace::SpanScope span(trace::SpanKind::kPhase, "backward");
      if (has_output) stage.loss_and_gradient(sums_2(), call.weights, batch, call.scales[micro_batch]);
      return stage.backward(call.weights, batch, call.scales[micro_batch]);
    }
    case ActionKind::kWeightGradient: {
      const trace::SpanScope span(trace::SpanKind::kPhase, "weight gradients");
      return stage.weight_gradients(call.weights);
    }
    default:
      HEARTH_CHECK(false, "{} is a transfer", plan::to_string(action));
  }
}

const plan::RankSchedule& Transformer::schedule_of(const Call& call) {
  const bool trains = !call.scales.empty();
  const auto [found, is_new] = schedules_.try_emplace({trains, std::ssize(call.batches)});
  if (is_new) {
    plan::Pipeline pipeline = pipeline_;
    pipeline.micro_batches = std::ssize(call.batches);
    found->second = plan::rank_schedule(pipeline, group_ == nullptr ? 0 : group_->rank(),
                                        trains ? plan::PipelinePass::kTraining : plan::PipelinePass::kForward);
    for (size_t i = 0; i < stages_.size(); ++i) {
      HEARTH_CHECK(group_ == nullptr || found->second.slots[i] <= stages_[i].activations().num_slots(),
                   "{} micro-batches need {} slots", pipeline.micro_batches, found->second.slots[i]);
    }
  }
  return found->second;
}

}  // namespace hearth::model
