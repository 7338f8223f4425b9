// SPDX-License-Identifier: Apache-2.0
#include "infer/bound.h"

#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "base/quantity.h"
#include "data/batch/label_rule.h"
#include "infer/progress.h"
#include "model/transformer.h"
#include "train/step.h"

namespace hearth::infer {
namespace {

// Lengths of computed sequences are multiples of this, so that few models are set up.
constexpr int64_t kRowStep = 64;

// A text's last tokens, as many as the model's window has.
std::span<const int32_t> window_of(const ContinuationTokens& text, int64_t window) {
  const std::span<const int32_t> all(text.ids);
  return all.last(std::min(all.size(), static_cast<size_t>(window)));
}

// Draws `first` to `first` + B - 1 of a text; draws past the last one are empty rows.
data::Batch draws_batch(const data::Diffusion& diffusion, uint64_t seed, uint64_t text, std::span<const int32_t> ids,
                        int64_t scored, int64_t first, int64_t B, int64_t S) {
  data::Batch batch;
  batch.B = B;
  batch.S = S;
  const auto size = static_cast<size_t>(B * S), length = ids.size();
  batch.tokens.assign(size, 0);
  batch.labels.assign(size, data::kIgnore);
  batch.weights.assign(size, 0);
  std::vector<int32_t> counted(length);
  for (int64_t row = 0; row < B; ++row) {
    batch.document_starts.push_back(static_cast<int32_t>(row * S));
    const bool is_empty = first + row >= diffusion.draws;
    batch.row_tokens.push_back(is_empty ? 0 : static_cast<int32_t>(length));
    if (is_empty) continue;
    const auto begin = static_cast<size_t>(row * S);
    const auto tokens = std::span(batch.tokens).subspan(begin, length);
    const auto weights = std::span(batch.weights).subspan(begin, length);
    std::ranges::copy(ids, tokens.begin());
    std::ranges::fill(weights.last(static_cast<size_t>(scored)), 1.0F);
    const uint64_t g = text * static_cast<uint64_t>(diffusion.draws) + static_cast<uint64_t>(first + row);
    diffuse_row(diffusion, seed, g, {{}, tokens, std::span(batch.labels).subspan(begin, length), weights, counted});
  }
  return batch;
}

}  // namespace

int64_t draws_of(const LoadedModel& model, const config::EvalOptions& options) {
  if (options.mc_num == 0) return config::Validation().mc_num;
  if (!model.config.objective.diffuses())
    throw user_error("--mc-num is for models of masked_diffusion",
                     fmt::format("{} was trained with objective.kind = \"{}\"", model.folder.string(),
                                 name_of(model.config.objective.kind)),
                     "leave it out");
  return options.mc_num;
}

std::vector<LogLikelihood> log_likelihood_bounds(LoadedModel& model, std::span<const ContinuationTokens> texts,
                                                 const BoundRules& rules) {
  const c10::InferenceMode no_gradients;
  data::Diffusion diffusion =
      data::diffusion_of(model.config.objective, model.config.model.attention_scope, *model.tokenizer, model.shape.V);
  diffusion.draws = rules.draws;
  const int64_t window = model.config.training.seq_len;
  std::vector<size_t> order(texts.size());  // longest first, so that few models are set up
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, std::greater(), [&](size_t i) { return window_of(texts[i], window).size(); });
  std::vector<LogLikelihood> results(texts.size());
  std::optional<model::Transformer> transformer;
  int64_t S = 0, done = 0;
  ProgressDisplay line("choices", "texts");
  for (const size_t i : order) {
    const std::span<const int32_t> ids = window_of(texts[i], window);
    if (diffusion.shifted && texts[i].scored >= std::ssize(ids))
      throw user_error(fmt::format("a choice of {} tokens fills the window of the model", texts[i].scored),
                       "no token is before it, whose logits predict its first one (objective.shift_logits)",
                       "give shorter choices");
    if (const int64_t needed = std::min(window, round_up(std::ssize(ids), kRowStep)); needed != S) {
      S = needed;
      transformer.reset();  // its memory is free before the next one's is taken
      transformer.emplace(model.shape, model.plan, rules.batch_size, S, model.compute_options());
    }
    LogLikelihood& result = results[i];
    result.tokens = texts[i].scored;
    for (int64_t first = 0; first < rules.draws; first += rules.batch_size) {
      const data::Batch batch = draws_batch(diffusion, rules.seed, i, ids, texts[i].scored, first, rules.batch_size, S);
      result.sum -= transformer->loss(*model.weights, train::to_tensors(batch, model.weights->device())).loss;
    }
    result.sum /= static_cast<double>(rules.draws);
    line.show(++done, std::ssize(texts));
  }
  return results;
}

}  // namespace hearth::infer
