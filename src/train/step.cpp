#include "train/step.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "metrics/throughput.h"
#include "ops/tensor.h"
#include "optim/clip.h"

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

// A sum over micro-batches in the order in which their gradients are added (ShardedWeights): `straight` of them one
// after the other, the sums of those in pairs.
class SumInPairs {
 public:
  explicit SumInPairs(int64_t straight) : straight_(straight) {}

  void add(double value) {
    sum_ += value;
    if (++count_ % straight_ != 0) return;
    for (int64_t groups = count_ / straight_; groups % 2 == 0; groups /= 2) {
      sum_ += partial_.back();
      partial_.pop_back();
    }
    partial_.push_back(sum_);
    sum_ = 0;
  }
  double total() const { return partial_.back(); }

 private:
  const int64_t straight_;
  int64_t count_ = 0;
  double sum_ = 0;
  std::vector<double> partial_;
};

std::vector<int64_t> counted_positions(const data::Batch& batch) {
  std::vector<int64_t> positions;
  for (size_t i = 0; i < batch.labels.size(); ++i)
    if (batch.labels[i] != data::kIgnore) positions.push_back(static_cast<int64_t>(i));
  return positions;
}

// `starts`, which hold the first place of each row, with those of the padding behind a row's tokens: nothing may attend
// to that.
std::vector<int32_t> with_padding(const data::Batch& batch, std::vector<int32_t> starts) {
  for (int64_t row = 0; row < static_cast<int64_t>(batch.row_tokens.size()); ++row) {
    const int32_t tokens = batch.row_tokens[static_cast<size_t>(row)];
    if (tokens > 0 && tokens < batch.S) starts.push_back(static_cast<int32_t>(row * batch.S) + tokens);
  }
  std::sort(starts.begin(), starts.end());
  return starts;
}

// What the sums of each micro-batch are multiplied with. The mean's denominator must be known before the first
// backward, over all ranks: a mean of per-rank means weighs tokens differently wherever their numbers differ.
std::vector<double> loss_scales(const data::StepBatch& batch, comm::Group& group, bool per_rank, int64_t straight) {
  std::vector<double> weights;
  SumInPairs sum(straight);
  for (const data::Batch& micro : batch.micro_batches) {
    weights.push_back(counted_weight(micro));
    sum.add(weights.back());
  }
  const double counted = group.all_reduce(sum.total());
  if (counted <= 0)
    throw user_error("no label counts in a step: there is nothing to learn from it",
                     "each is padding, hidden from the loss, or of weight 0",
                     "give a larger training.global_batch_size; of masked_lm, see objective.at_least_one_mask");
  const double means = group.all_reduce(static_cast<double>(weights.size()));
  // A micro-batch in which nothing counts has no mean, and adds nothing.
  for (double& weight : weights) weight = !per_rank ? 1 / counted : weight > 0 ? 1 / (weight * means) : 0;
  return weights;
}

}  // namespace

double counted_weight(const data::Batch& batch) {
  double sum = 0;
  for (size_t i = 0; i < batch.labels.size(); ++i)
    if (batch.labels[i] != data::kIgnore) sum += batch.weights.empty() ? 1.0 : static_cast<double>(batch.weights[i]);
  return sum;
}

model::MicroBatch to_tensors(const data::Batch& batch) {
  model::MicroBatch result;
  result.tokens_T = ops::from_int32(batch.tokens);
  result.labels_T = ops::from_int32(batch.labels);
  if (!batch.weights.empty()) result.weights_T = ops::from_float32(batch.weights);
  if (!batch.document_starts.empty())
    result.document_starts_N = ops::from_int32(with_padding(batch, batch.document_starts));
  std::vector<int32_t> rows;
  for (int64_t row = 0; row < batch.B; ++row) rows.push_back(static_cast<int32_t>(row * batch.S));
  const std::vector<int32_t> starts = with_padding(batch, rows);
  if (starts.size() > rows.size()) result.padding_starts_N = ops::from_int32(starts);
  const std::vector<int64_t> counted = counted_positions(batch);
  if (counted.size() < batch.labels.size()) result.counted_N = ops::from_int64(counted);
  return result;
}

bool is_finite(const StepResult& result) { return std::isfinite(result.loss) && std::isfinite(result.grad_norm); }

StepResult train_step(model::Transformer& model, parallel::ShardedWeights& weights, optim::AdamW& optimizer,
                      const data::StepBatch& batch, int64_t t, double lr, double max_norm, const LossOptions& options,
                      const std::function<bool(const StepResult&)>& accept) {
  comm::Group& group = weights.group();
  weights.begin_step(static_cast<int64_t>(batch.micro_batches.size()));
  const int64_t straight = weights.straight_micro_batches();
  const std::vector<double> scales = loss_scales(batch, group, options.per_rank, straight);

  StepResult result;
  Stopwatch watch;
  SumInPairs loss(straight), z_squares(straight);
  for (size_t i = 0; i < batch.micro_batches.size(); ++i) {
    const ops::CrossEntropy sum =
        model.loss_and_gradient(weights, to_tensors(batch.micro_batches[i]), {scales[i], options.z_factor});
    loss.add(sum.loss * scales[i]);
    z_squares.add(sum.z_squares * scales[i]);
  }
  result.loss = group.all_reduce(loss.total());
  result.z_loss = options.z_factor > 0 ? options.z_factor * group.all_reduce(z_squares.total()) : 0;
  result.forward_backward_s = watch.lap();
  result.grad_norm = optim::gradient_norm(weights);
  result.norm_s = watch.lap();
  result.applied = accept(result);
  if (!result.applied) return result;

  optimizer.step(lr, t, optim::clip_scale(result.grad_norm, max_norm));
  weights.end_step();
  result.update_s = watch.lap();
  return result;
}

}  // namespace hearth::train
