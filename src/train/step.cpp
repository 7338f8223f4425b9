// SPDX-License-Identifier: Apache-2.0
#include "train/step.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <span>

#include "base/error.h"
#include "metrics/throughput.h"
#include "ops/moe/moe.h"
#include "ops/tensor.h"
#include "optim/clip.h"
#include "trace/spans.h"

namespace hearth::train {
namespace {

struct Stopwatch {
  double start_s = metrics::monotonic_seconds();
  double lap() {
    const double end_s = metrics::monotonic_seconds();
    const double lap_s = end_s - start_s;
    start_s = end_s;
    return lap_s;
  }
};

// A rank's positions of each of B rows of S.
template <class T>
std::vector<T> part_of_rows(const std::vector<T>& all, int64_t B, int64_t S, const plan::SequencePart& part) {
  if (part.size == 1) return all;
  std::vector<T> mine;
  for (int64_t row = 0; row < B; ++row) {
    for (const plan::PositionRange& range : plan::positions_of(part, S)) {
      const auto begin = all.begin() + row * S + range.begin;
      mine.insert(mine.end(), begin, begin + range.count);
    }
  }
  return mine;
}

std::vector<int64_t> counted_positions(std::span<const int32_t> labels) {
  std::vector<int64_t> positions;
  for (size_t i = 0; i < labels.size(); ++i)
    if (labels[i] != data::kIgnore) positions.push_back(static_cast<int64_t>(i));
  return positions;
}

// Adds to `starts`, the first place of each row, the start of the padding after each row's tokens. So nothing attends
// to padding.
std::vector<int32_t> with_padding(const data::Batch& batch, std::vector<int32_t> starts) {
  for (int64_t row = 0; row < static_cast<int64_t>(batch.row_tokens.size()); ++row) {
    const int32_t tokens = batch.row_tokens[static_cast<size_t>(row)];
    if (tokens > 0 && tokens < batch.S) starts.push_back(static_cast<int32_t>(row * batch.S) + tokens);
  }
  std::sort(starts.begin(), starts.end());
  return starts;
}

// Sets what tells tokens from padding.
void add_padding(model::MicroBatch& result, const data::Batch& batch, at::Device device,
                 const plan::SequencePart& part) {
  std::vector<float> counts(static_cast<size_t>(batch.B * batch.S), 1), tokens;
  bool is_padded = false;
  for (int64_t row = 0; row < std::ssize(batch.row_tokens); ++row) {
    const int64_t length = batch.row_tokens[static_cast<size_t>(row)];
    tokens.push_back(static_cast<float>(length));
    is_padded = is_padded || length < batch.S;
    std::fill_n(counts.begin() + row * batch.S + length, batch.S - length, 0.0F);
  }
  if (!is_padded) return;
  result.counts_T = ops::from_float32(part_of_rows(counts, batch.B, batch.S, part), device);
  result.row_tokens_B = ops::from_float32(tokens, device);
}

// The factor of each micro-batch's sums. The mean's denominator is over all ranks and must be known before the first
// backward. A mean of per-rank means would weight tokens differently if ranks have different counts. Empty if no label
// counts.
std::vector<double> loss_scales(const data::StepBatch& batch, std::span<const double> counts, int64_t ranks,
                                bool per_rank, int64_t paired) {
  std::vector<double> pairs;  // the form that total_losses needs
  for (const double count : counts) pairs.insert(pairs.end(), {count, 0});
  double totals[2];
  kernels::total_losses(totals, pairs.data(), std::ssize(counts), paired);
  const double counted = totals[0], means = static_cast<double>(std::ssize(counts) * ranks);
  if (counted <= 0) return {};
  // A micro-batch without counted labels has no mean and contributes nothing.
  std::vector<double> scales = counted_weights(batch);
  for (double& weight : scales) weight = !per_rank ? 1 / counted : weight > 0 ? 1 / (weight * means) : 0;
  return scales;
}

// The length of the longest document; documents begin at `starts`, and there are T places.
int64_t longest(const std::vector<int32_t>& starts, int64_t T) {
  int64_t result = 0;
  for (size_t i = 0; i < starts.size(); ++i)
    result = std::max(result, (i + 1 < starts.size() ? starts[i + 1] : T) - starts[i]);
  return result;
}

}  // namespace

StepOptions step_options(const config::RunConfig& config) {
  return {config.training.max_norm,
          config.objective.z_loss,
          config.numerics.loss_average == config::LossAverage::kPerRank,
          config.training.cuda_graph,
          config.model.load_balance_coeff,
          config.checkpoint.freeze};
}

double counted_weight(const data::Batch& batch) {
  const std::vector<int32_t>& counted = batch.counted.empty() ? batch.labels : batch.counted;
  const std::vector<float>& weights = batch.counted.empty() ? batch.weights : batch.counted_weights;
  double sum = 0;
  for (size_t i = 0; i < counted.size(); ++i)
    if (counted[i] != data::kIgnore) sum += weights.empty() ? 1.0 : static_cast<double>(weights[i]);
  return sum;
}

std::vector<double> counted_weights(const data::StepBatch& batch) {
  std::vector<double> weights;
  for (const data::Batch& micro : batch.micro_batches) weights.push_back(counted_weight(micro));
  return weights;
}

model::MicroBatch to_tensors(const data::Batch& batch, at::Device device, const plan::SequencePart& part) {
  const auto mine = [&](const auto& of_all) { return part_of_rows(of_all, batch.B, batch.S, part); };
  model::MicroBatch result;
  const auto labels = mine(batch.labels);
  result.tokens_T = ops::from_int32(mine(batch.tokens), device);
  result.labels_T = ops::from_int32(labels, device);
  if (!batch.weights.empty()) result.weights_T = ops::from_float32(mine(batch.weights), device);
  if (!batch.document_starts.empty()) {
    const std::vector<int32_t> starts = with_padding(batch, batch.document_starts);
    result.document_starts_N = ops::from_int32(starts, device);
    result.longest_document = longest(starts, batch.B * batch.S);
  }
  add_padding(result, batch, device, part);
  std::vector<int32_t> rows;
  for (int64_t row = 0; row < batch.B; ++row) rows.push_back(static_cast<int32_t>(row * batch.S));
  const std::vector<int32_t> starts = with_padding(batch, rows);
  if (starts.size() > rows.size()) result.padding_starts_N = ops::from_int32(starts, device);
  const std::vector<int64_t> counted = counted_positions(labels);
  if (counted.size() < labels.size()) result.counted_N = ops::from_int64(counted, device);
  return result;
}

// A part without a factor is exactly 0. Others are above 0.
void add_part(StepResult& result, const metrics::LossPart& part, double value) {
  if (value != 0) result.loss_parts[part.name] = value;
}

// `routers_LX`: Transformer::no_router_metrics after the step. Loads are relative to the mean of the layer. A layer
// without experts has no rows.
void add_router_metrics(StepResult& result, const at::Tensor& routers_LX) {
  double balance = 0, z = 0;
  for (int64_t layer = 0; layer < routers_LX.size(0); ++layer) {
    const std::vector<double> all = ops::to_doubles(routers_LX.select(0, layer));
    const auto rows = std::span(all).subspan(ops::kNumRouterSums);
    const double mean = std::accumulate(rows.begin(), rows.end(), 0.0) / static_cast<double>(rows.size());
    if (mean == 0) continue;
    const auto [least, most] = std::minmax_element(rows.begin(), rows.end());
    result.expert_loads.push_back({.layer = layer,
                                   .least = *least / mean,
                                   .most = *most / mean,
                                   .idle = std::count(rows.begin(), rows.end(), 0.0),
                                   .entropy = all[ops::kEntropy]});
    balance += all[ops::kBalanceLoss];
    z += all[ops::kZLoss];
  }
  add_part(result, metrics::kMoeAuxLoss, balance);
  add_part(result, metrics::kMoeZLoss, z);
}

StepResult PendingStep::result() {
  if (!decision_) return result_;
  const trace::SpanScope span(trace::SpanKind::kWait, "wait for the step");
  const kernels::Decision decision = ops::read_decision(decision_->wait());
  result_.loss = decision.loss;
  add_part(result_, metrics::kZLoss, decision.z_loss);
  result_.grad_norm = decision.grad_norm;
  result_.loss_deviations = decision.loss_deviations;
  result_.norm_deviations = decision.norm_deviations;
  result_.applied = decision.apply != 0;
  if (routers_) add_router_metrics(result_, routers_->wait());
  return result_;
}

TrainStep::TrainStep(model::Transformer& model, parallel::ShardedWeights& weights, optim::ShardedOptimizer& optimizer,
                     const StepOptions& options, const ops::GuardRules& rules)
    : model_(model),
      weights_(weights),
      optimizer_(optimizer),
      options_(options),
      expert_bias_(options.load_balance_coeff, options.freeze, weights),
      decision_(rules, weights.device()) {
  if (options.graph) graph_.emplace(model, weights, options.z_factor);
}

PendingStep TrainStep::run(const data::StepBatch& batch, int64_t step, double lr) {
  std::vector<double> counts = counted_weights(batch);
  // Ranks that share the sequences have the same counts.
  if (model_.sequence_part().rank > 0) std::fill(counts.begin(), counts.end(), 0.0);
  const at::Tensor counts_A = ops::from_float64(counts, weights_.device());
  weights_.group().all_reduce(counts_A);
  return run(batch, ops::to_doubles(counts_A), step, lr);
}

at::Tensor TrainStep::loads_of(const at::Tensor& routers_LX) {
  if (!routers_LX.defined()) return {};
  return routers_LX.narrow(1, ops::kNumRouterSums, routers_LX.size(1) - ops::kNumRouterSums);
}

// What the micro-batches of a step have in common.
model::LossScale TrainStep::scale_of_step(double per_position, const at::Tensor& routers_LX) const {
  model::LossScale scale{.scale_1 = {}, .z_factor = options_.z_factor, .per_position = per_position};
  if (!routers_LX.defined()) return scale;
  scale.router_sums_L3 = routers_LX.narrow(1, 0, ops::kNumRouterSums);
  scale.loads_LE = loads_of(routers_LX);
  return scale;
}

void TrainStep::sum_router_metrics(const at::Tensor& routers_LX) {
  const parallel::ModelRanks& ranks = weights_.ranks();
  weights_.group().all_reduce(routers_LX);
  // Ranks that share the layers all count the same rows, unless they have different experts: then each has its own.
  if (ranks.experts != nullptr && ranks.tensor != nullptr) ranks.tensor->all_reduce(routers_LX);
  if (ranks.pipeline != nullptr) ranks.pipeline->all_reduce(routers_LX);
}

PendingStep TrainStep::run(const data::StepBatch& batch, std::span<const double> counts, int64_t step, double lr) {
  comm::Group& group = weights_.group();
  const at::Device device = weights_.device();
  const auto A = static_cast<int64_t>(batch.micro_batches.size());
  weights_.begin_step(A);
  const int64_t paired = weights_.paired_micro_batches(), data_ranks = group.size() / model_.sequence_part().size;
  StepResult times;
  const std::vector<double> scales = loss_scales(batch, counts, data_ranks, options_.per_rank, paired);
  if (scales.empty()) {
    times.counted = false;
    times.loss = times.grad_norm = std::numeric_limits<double>::quiet_NaN();
    return {std::nullopt, std::nullopt, times};
  }
  const at::Tensor scales_A = ops::from_float64(scales, device);
  Stopwatch watch;
  const at::Tensor sums_A2 = ops::zeros({A, 2}, DType::kFloat64, device);
  const int64_t together = model_.micro_batches();
  HEARTH_CHECK(A % together == 0, "{} micro-batches, {} at a time", A, together);
  const at::Tensor routers_LX = model_.no_router_metrics();
  const data::Batch& one = batch.micro_batches.front();
  const model::LossScale per_step = scale_of_step(1 / static_cast<double>(A * data_ranks * one.B * one.S), routers_LX);
  for (int64_t first = 0; first < A; first += together) {
    std::vector<model::MicroBatch> micro;
    std::vector<model::LossScale> micro_scales;
    for (int64_t i = first; i < first + together; ++i) {
      micro.push_back(to_tensors(batch.micro_batches[static_cast<size_t>(i)], device, model_.sequence_part()));
      micro_scales.push_back(per_step);
      micro_scales.back().scale_1 = scales_A.narrow(0, i, 1);
    }
    const at::Tensor sums_M2 = sums_A2.narrow(0, first, together);
    if (graph_) {
      graph_->run(sums_M2.select(0, 0), micro.front(), micro_scales.front().scale_1);
    } else {
      model_.loss_and_gradient(sums_M2, weights_, micro, micro_scales);
    }
  }
  weights_.finish_gradients();
  const at::Tensor totals_2 = ops::empty({2}, DType::kFloat64, device);
  ops::scale_rows_(sums_A2, scales_A);
  group.all_reduce(sums_A2);
  // Only the last stage has sums.
  comm::Group* const pipeline = weights_.ranks().pipeline;
  if (pipeline != nullptr) pipeline->all_reduce(sums_A2);
  if (routers_LX.defined()) sum_router_metrics(routers_LX);
  decision_.total(totals_2, sums_A2, paired);
  times.forward_backward_s = watch.lap();
  {
    const trace::SpanScope span(trace::SpanKind::kPhase, "gradient norm");
    const at::Tensor grad_squares_1 = optim::squared_gradient_norm(weights_);
    decision_.decide(totals_2, grad_squares_1, options_.z_factor, options_.max_norm);
  }
  times.norm_s = watch.lap();

  {
    const trace::SpanScope span(trace::SpanKind::kPhase, "optimizer");
    optimizer_.step(lr, step, decision_.decision());
    expert_bias_.step(loads_of(routers_LX), decision_.decision());
    weights_.end_step();
  }
  times.update_s = watch.lap();
  return {ops::Readback(decision_.decision()),
          routers_LX.defined() ? std::optional<ops::Readback>(routers_LX) : std::nullopt, times};
}

}  // namespace hearth::train
