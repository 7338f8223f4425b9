// SPDX-License-Identifier: Apache-2.0
#include "train/validate.h"

#include <algorithm>

#include "base/error.h"
#include "base/quantity.h"
#include "config/derived.h"
#include "data/batch/loader.h"
#include "trace/spans.h"
#include "train/step.h"

namespace hearth::train {

double counted_units(const data::Batch& batch, std::span<const int64_t> token_units) {
  const std::vector<int32_t>& counted = batch.counted.empty() ? batch.labels : batch.counted;
  const std::vector<float>& weights = batch.counted.empty() ? batch.weights : batch.counted_weights;
  double sum = 0;
  for (size_t i = 0; !token_units.empty() && i < counted.size(); ++i) {
    if (counted[i] == data::kIgnore) continue;
    const double weight = weights.empty() ? 1 : static_cast<double>(weights[i]);
    sum += weight * static_cast<double>(token_units[static_cast<size_t>(counted[i])]);
  }
  return sum;
}

ValidationResult validate(model::Transformer& model, parallel::ShardedWeights& weights, const data::Split& split,
                          const ValidationOptions& options) {
  const trace::SpanScope span(trace::SpanKind::kPhase, "validation");
  comm::Group& group = weights.group();
  const plan::SequencePart part = model.sequence_part();  // neighbours in the group share the sequences
  data::LoaderOptions loading;
  loading.seq_len = options.seq_len;
  loading.local_batch_size = options.local_batch_size;
  loading.global_batch_size = options.local_batch_size * group.size() / part.size;
  loading.rank = group.rank() / part.size;
  loading.ranks = group.size() / part.size;
  loading.prefetch_threads = 0;  // copying a batch is much faster than a forward pass
  loading.shuffle = false;
  loading.labels = options.labels;
  loading.order.masked = options.labels.hides();
  // A bound is the mean over whole samples, however many rows a batch has.
  if (options.labels.diffusion) loading.max_windows = options.max_sequences;
  loading.seed = options.seed;
  data::Loader loader(split, loading);

  // Gathering weights is collective, so the loader gives every rank the same number of batches, with empty ones at the
  // end.
  int64_t batches = loader.steps_left();
  if (options.max_sequences > 0 && !options.labels.diffusion)
    batches = std::min(batches, div_ceil(options.max_sequences, loading.global_batch_size));
  ValidationResult result;
  for (int64_t left = batches; left > 0;) {
    const int64_t together = std::min(left, model.micro_batches());
    left -= together;
    std::vector<model::MicroBatch> micro;
    for (int64_t i = 0; i < together; ++i) {
      const data::StepBatch step = loader.next();
      const data::Batch& batch = step.micro_batches.front();
      micro.push_back(to_tensors(batch, model.device(), part));
      if (part.rank > 0 || !model.has_output()) continue;
      result.counted_tokens += counted_weight(batch);
      result.counted_units += counted_units(batch, options.token_units);
    }
    const at::Tensor sums_M2 = ops::zeros({together, 2}, DType::kFloat64, model.device());
    model.loss(sums_M2, weights, micro);
    for (int64_t i = 0; i < together; ++i) result.loss_sum += ops::read_sums(sums_M2.select(0, i)).loss;
    if (options.progress) options.progress(batches - left, batches);
  }
  const double mine[] = {result.loss_sum, result.counted_tokens, result.counted_units};
  const at::Tensor sums_3 = ops::from_float64(mine, model.device());
  group.all_reduce(sums_3);
  if (comm::Group* const pipeline = weights.ranks().pipeline) pipeline->all_reduce(sums_3);
  const std::vector<double> all = ops::to_doubles(sums_3);
  const double rows_each = options.labels.diffusion ? static_cast<double>(options.labels.diffusion->rows()) : 1;
  result.loss_sum = all[0] / rows_each;
  result.counted_tokens = all[1] / rows_each;
  result.counted_units = all[2] / rows_each;
  if (result.counted_tokens <= 0)
    throw user_error(
        fmt::format("no token of split \"{}\" counts in the loss", split.name()),
        options.labels.masking ? "by chance, no token that was read is hidden"
                               : "the data give every token that was read the weight 0",
        options.labels.masking
            ? "read more (validation.steps), hide more (objective.mlm_probability, or mlm_probability_end where it is "
              "set), or set objective.at_least_one_mask"
            : "evaluate other documents, or build them without --loss-key, --labels-key, --weights-key or --labels");
  return result;
}

void validate(model::Transformer& model, parallel::ShardedWeights& weights, const run::Run& run,
              metrics::StepRecord& record) {
  const ValidationOptions options{.seq_len = run.seq_len(),
                                  .local_batch_size = config::micro_batch_size(run.config),
                                  .max_sequences = run.config.validation.steps * run.global_batch_size,
                                  .labels = run.labels.held_out(run.config.validation.mc_num)};
  ValidationResult all;
  for (const run::ValidationData& set : run.validation) {
    const ValidationResult one = validate(model, weights, set.dataset.split(set.split), options);
    if (!set.name.empty()) record.validation_losses[set.name] = one.loss();
    all.loss_sum += one.loss_sum;
    all.counted_tokens += one.counted_tokens;
  }
  record.validation_loss = all.loss();
}

}  // namespace hearth::train
