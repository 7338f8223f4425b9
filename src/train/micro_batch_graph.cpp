// SPDX-License-Identifier: Apache-2.0
#include "train/micro_batch_graph.h"

#include <span>
#include <vector>

#include "base/error.h"
#include "ops/tensor.h"
#include "trace/spans.h"

namespace hearth::train {

MicroBatchGraph::MicroBatchGraph(model::Transformer& model, parallel::ShardedWeights& weights, double z_factor)
    : model_(model), weights_(weights), whole_(weights), z_factor_(z_factor), graph_(model.device()) {
  HEARTH_CHECK(!model.needs_boundaries(), "attention depends on more than the batch's shape");
  HEARTH_CHECK(weights.sharding().zero_stage == 1, "recorded work needs all weights at fixed addresses");
  const at::Device device = model.device();
  const int64_t T = model.tokens();
  batch_.tokens_T = ops::empty({T}, DType::kInt32, device);
  batch_.labels_T = ops::empty({T}, DType::kInt32, device);
  ones_T_ = ops::from_float32(std::vector<float>(static_cast<size_t>(T), 1), device);
  batch_.weights_T = ops::empty({T}, DType::kFloat32, device);
  scale_1_ = ops::empty({1}, DType::kFloat64, device);
  sums_2_ = ops::empty({2}, DType::kFloat64, device);
}

void MicroBatchGraph::run(const at::Tensor& sums_2, const model::MicroBatch& batch, const at::Tensor& scale_1) {
  const trace::SpanScope span(trace::SpanKind::kPhase, "recorded micro-batch");
  for (int64_t unit = 0; unit < weights_.num_units(); ++unit) {
    weights_.gather(unit);
    weights_.gradient(unit);  // zero where a sum begins: recorded products always add
  }
  ops::copy_(batch_.tokens_T, batch.tokens_T);
  ops::copy_(batch_.labels_T, batch.labels_T);
  ops::copy_(batch_.weights_T, batch.weights_T.defined() ? batch.weights_T : ones_T_);
  ops::copy_(scale_1_, scale_1);
  ops::copy_(sums_2_, sums_2);
  const model::LossScale scale{scale_1_, z_factor_};
  const auto work = [this, &scale] {
    model_.loss_and_gradient(sums_2_.view({1, 2}), whole_, std::span(&batch_, 1), std::span(&scale, 1));
  };
  if (ran_once_) {
    if (!graph_.recorded()) graph_.record(work);
    graph_.replay();
  } else {
    work();
    ran_once_ = true;
  }
  ops::copy_(sums_2, sums_2_);
  for (int64_t unit = weights_.num_units() - 1; unit >= 0; --unit) weights_.gradient_ready(unit);
}

}  // namespace hearth::train
