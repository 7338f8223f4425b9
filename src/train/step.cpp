#include "train/step.h"

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
  if (!batch.document_starts.empty()) result.document_starts_N = ops::from_int32(batch.document_starts);
  return result;
}

StepResult train_step(model::Transformer& model, parallel::ShardedWeights& weights, optim::AdamW& optimizer,
                      const data::StepBatch& batch, int64_t t, double lr, double max_norm) {
  comm::Group& group = weights.group();

  // The mean's denominator must be known before the first backward, over all ranks: a mean of per-rank means would
  // weigh tokens differently wherever their numbers differ.
  double counted = 0;
  for (const data::Batch& micro : batch.micro_batches) counted += counted_weight(micro);
  counted = group.all_reduce(counted);
  HEARTH_CHECK(counted > 0, "no label counts in step {}", t);

  StepResult result;
  Stopwatch watch;
  weights.begin_step(static_cast<int64_t>(batch.micro_batches.size()));
  double loss_sum = 0;
  for (const data::Batch& micro : batch.micro_batches)
    loss_sum += model.loss_and_gradient(weights, to_tensors(micro), 1 / counted);

  result.loss = group.all_reduce(loss_sum) / counted;
  result.forward_backward_s = watch.lap();
  result.grad_norm = optim::gradient_norm(weights);
  result.norm_s = watch.lap();
  result.applied = std::isfinite(result.loss) && std::isfinite(result.grad_norm);
  if (!result.applied) return result;

  optimizer.step(lr, t, optim::clip_scale(result.grad_norm, max_norm));
  weights.end_step();
  result.update_s = watch.lap();
  return result;
}

}  // namespace hearth::train
