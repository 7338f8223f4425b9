#include "train/fill.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/random.h"
#include "data/masking.h"
#include "model/transformer.h"
#include "ops/tensor.h"

namespace hearth::train {
namespace {

// "[MASK]" is understood whatever the tokenizer calls its mask.
std::string with_masks_spelled(std::string text, const std::string& mask) {
  constexpr std::string_view kUsual = "[MASK]";
  for (size_t at = 0; (at = text.find(kUsual, at)) != std::string::npos; at += mask.size())
    text.replace(at, kUsual.size(), mask);
  return text;
}

// Appends the ids of the text, `mask_id` where a mask stands.
void encode_with_masks(const LoadedModel& model, const std::string& text, const std::string& mask, uint32_t mask_id,
                       std::vector<uint32_t>& ids) {
  for (size_t begin = 0;;) {
    const size_t end = text.find(mask, begin);
    model.tokenizer->encode(text.substr(begin, end - begin), ids);
    if (end == std::string::npos) return;
    ids.push_back(mask_id);
    begin = end + mask.size();
  }
}

// Probabilities of what stands at `positions`, each [vocab_size]; no special token stands for hidden text.
std::vector<std::vector<double>> logits_at(LoadedModel& model, model::Transformer& transformer,
                                           const std::vector<uint32_t>& ids, const std::vector<int64_t>& positions) {
  const std::vector<int32_t> tokens(ids.begin(), ids.end());
  model::MicroBatch batch;
  batch.tokens_T = ops::from_int32(tokens);
  batch.labels_T = batch.tokens_T;
  batch.counted_N = ops::from_int64({});
  batch.document_starts_N = ops::from_int32(std::vector<int32_t>{0});
  transformer.loss(*model.weights, batch);
  const at::Tensor logits_NV = transformer.logits(*model.weights, ops::from_int64(positions));
  const auto V = std::min(logits_NV.size(1), model.tokenizer->vocab_size());
  std::vector<std::vector<double>> rows;
  for (size_t i = 0; i < positions.size(); ++i)
    rows.push_back(ops::to_doubles(logits_NV.select(0, static_cast<int64_t>(i)).narrow(0, 0, V)));
  return rows;
}

double certainty(const std::vector<double>& logits) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const double logit : logits) sum += std::exp(logit - largest);
  return 1 / sum;
}

}  // namespace

std::string mask_text(const LoadedModel& model) {
  const data::Masking masking = data::masking_of(model.config.objective, *model.tokenizer, model.shape.V);
  for (const tokenizer::SpecialToken& token : model.tokenizer->special_tokens())
    if (static_cast<int32_t>(token.id) == masking.mask_id) return token.text;
  return "[MASK]";
}

Filled fill_masks(LoadedModel& model, const Filling& request) {
  const c10::InferenceMode no_gradients;
  const config::Objective& objective = model.config.objective;
  if (!objective.masked())
    throw user_error(fmt::format("{} does not fill masks", model.folder.string()),
                     fmt::format("it was trained with objective.kind = \"{}\"", objective.kind),
                     "give --prompt, and it goes on");
  const data::Masking masking = data::masking_of(objective, *model.tokenizer, model.shape.V);
  const std::string mask = mask_text(model);
  const auto mask_id = static_cast<uint32_t>(masking.mask_id);
  const std::vector<int32_t> start = document_start(model);
  Filled filled{{}, {start.begin(), start.end()}, {}};
  encode_with_masks(model, with_masks_spelled(request.text, mask), mask, mask_id, filled.ids);
  if (model.tokenizer->eos()) filled.ids.push_back(*model.tokenizer->eos());
  std::vector<int64_t> open;
  for (size_t i = 0; i < filled.ids.size(); ++i)
    if (filled.ids[i] == mask_id) open.push_back(static_cast<int64_t>(i));
  if (open.empty())
    throw user_error("the text of --fill has no mask", {},
                     fmt::format("write {} for each token to be filled in", mask));
  const auto S = static_cast<int64_t>(filled.ids.size());
  if (S > model.config.training.seq_len)
    throw user_error(fmt::format("the text of --fill has {} tokens", S),
                     fmt::format("the model was trained on windows of {}", model.config.training.seq_len),
                     "give a shorter text");

  model::Transformer transformer(model.shape, model.plan, 1, S, model.dtype, 64, /*training=*/false);
  std::vector<bool> never(static_cast<size_t>(model.tokenizer->vocab_size()));
  for (const tokenizer::SpecialToken& token : model.tokenizer->special_tokens()) never[token.id] = true;
  for (const auto id : {model.tokenizer->bos(), model.tokenizer->eos()})
    if (id) never[*id] = true;
  const RandomKey key = random_key(request.seed, "fill");
  while (!open.empty()) {
    auto rows = logits_at(model, transformer, filled.ids, open);
    for (auto& row : rows)
      for (size_t id = 0; id < row.size(); ++id)
        if (never[id]) row[id] = -std::numeric_limits<double>::infinity();
    size_t surest = 0;
    for (size_t i = 1; i < rows.size(); ++i)
      if (certainty(rows[i]) > certainty(rows[surest])) surest = i;
    const double uniform = random_uniform(key, filled.positions.size());
    const int64_t position = open[surest];
    filled.ids[static_cast<size_t>(position)] =
        static_cast<uint32_t>(sample_token(rows[surest], request.sampling, uniform));
    filled.positions.push_back(position);
    open.erase(open.begin() + static_cast<std::ptrdiff_t>(surest));
  }
  filled.text = model.tokenizer->decode_all(std::span(filled.ids).subspan(start.size()));
  return filled;
}

}  // namespace hearth::train
