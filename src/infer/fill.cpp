#include "infer/fill.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/random.h"
#include "data/batch/masking.h"
#include "model/transformer.h"
#include "ops/tensor.h"

namespace hearth::infer {
namespace {

// Replaces "[MASK]", which is always accepted, by the tokenizer's spelling of the mask.
std::string with_masks_spelled(std::string text, const std::string& mask) {
  constexpr std::string_view kUsual = "[MASK]";
  for (size_t at = 0; (at = text.find(kUsual, at)) != std::string::npos; at += mask.size())
    text.replace(at, kUsual.size(), mask);
  return text;
}

// Appends the ids of the text, with `mask_id` for each mask.
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

// The probability of the most likely token.
double certainty(const std::vector<double>& logits) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const double logit : logits) sum += std::exp(logit - largest);
  return 1 / sum;
}

// An open position, with the logits of its token.
struct Guess {
  size_t index = 0;
  std::vector<double> logits{};  // -infinity for ids without text
  double certainty = -1;
};

Guess surest(LoadedModel& model, model::Transformer& transformer, const std::vector<uint32_t>& ids,
             const std::vector<int64_t>& open, const std::vector<bool>& no_text) {
  const at::Device device = model.weights->device();
  model::MicroBatch batch;
  batch.tokens_T = ops::from_int32(std::vector<int32_t>(ids.begin(), ids.end()), device);
  batch.labels_T = batch.tokens_T;
  batch.counted_N = ops::from_int64({}, device);
  batch.document_starts_N = ops::from_int32(std::vector<int32_t>{0}, device);
  transformer.loss(*model.weights, batch);
  const at::Tensor logits_NV = transformer.logits(*model.weights, ops::from_int64(open, device));
  const auto V = std::min(logits_NV.size(1), model.tokenizer->vocab_size());
  Guess best;
  for (size_t i = 0; i < open.size(); ++i) {
    std::vector<double> logits = ops::to_doubles(logits_NV.select(0, static_cast<int64_t>(i)).narrow(0, 0, V));
    for (size_t id = 0; id < logits.size(); ++id)
      if (no_text[id]) logits[id] = -std::numeric_limits<double>::infinity();
    if (const double sure = certainty(logits); sure > best.certainty) best = {i, std::move(logits), sure};
  }
  return best;
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
                     fmt::format("it was trained with objective.kind = \"{}\"", name_of(objective.kind)),
                     "give --prompt, which it continues");
  const auto mask_id = static_cast<uint32_t>(data::masking_of(objective, *model.tokenizer, model.shape.V).mask_id);
  const std::string mask = mask_text(model);
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

  model::Transformer transformer(model.shape, model.plan, 1, S,
                                 {.dtype = model.dtype, .loss_chunk_tokens = 64, .device = model.weights->device()});
  const std::vector<bool> no_text = data::special_ids(*model.tokenizer, model.shape.V);
  const RandomKey key = random_key(request.seed, "fill");
  while (!open.empty()) {
    const Guess guess = surest(model, transformer, filled.ids, open, no_text);
    const double uniform = random_uniform(key, filled.positions.size());
    const int64_t position = open[guess.index];
    filled.ids[static_cast<size_t>(position)] =
        static_cast<uint32_t>(sample_token(guess.logits, request.sampling, uniform));
    filled.positions.push_back(position);
    open.erase(open.begin() + static_cast<std::ptrdiff_t>(guess.index));
  }
  filled.text = model.tokenizer->decode_all(std::span(filled.ids).subspan(start.size()));
  return filled;
}

}  // namespace hearth::infer
