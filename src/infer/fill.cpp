// SPDX-License-Identifier: Apache-2.0
#include "infer/fill.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/random.h"
#include "data/batch/masking.h"
#include "data/batch/prompt.h"
#include "infer/decoding.h"
#include "ops/tensor.h"

namespace hearth::infer {
namespace {

// An open position, with the logits of its token.
struct Guess {
  size_t index = 0;
  std::vector<double> logits{};  // -infinity for ids without text
  double certainty = -1;
};

Guess surest(LoadedModel& model, model::Transformer& transformer, const std::vector<int32_t>& ids,
             const std::vector<int64_t>& open, const std::vector<bool>& no_text) {
  compute_sequences(transformer, *model.weights, ids, std::vector<int32_t>{0});
  const at::Tensor logits_NV = transformer.logits(*model.weights, ops::from_int64(open, model.weights->device()));
  const auto V = std::min(logits_NV.size(1), model.tokenizer->vocab_size());
  Guess best;
  for (size_t i = 0; i < open.size(); ++i) {
    std::vector<double> logits = ops::to_doubles(logits_NV.select(0, static_cast<int64_t>(i)).narrow(0, 0, V));
    for (size_t id = 0; id < logits.size(); ++id)
      if (no_text[id]) logits[id] = -std::numeric_limits<double>::infinity();
    check_numbers(logits, model);
    if (const double sure = decode::certainty(logits); sure > best.certainty) best = {i, std::move(logits), sure};
  }
  return best;
}

}  // namespace

std::string mask_text(const LoadedModel& model) {
  return data::mask_text(*model.tokenizer, data::mask_id_of(model.config.objective, *model.tokenizer, model.shape.V));
}

data::MaskedPrompt masked_prompt(const LoadedModel& model, const std::string& text) {
  const config::Objective& objective = model.config.objective;
  if (!objective.masked() || objective.diffuses())
    throw user_error(fmt::format("{} does not fill masks", model.folder.string()),
                     fmt::format("it was trained with objective.kind = \"{}\"", name_of(objective.kind)),
                     "give --prompt, which it continues");
  const int32_t mask_id = data::mask_id_of(objective, *model.tokenizer, model.shape.V);
  data::MaskedPrompt prompt = data::masked_prompt(*model.tokenizer, model.manifest.document_bos, mask_id, text);
  if (prompt.open.empty())
    throw user_error("the text has no mask", {},
                     fmt::format("write {} for each token to be filled in", mask_text(model)));
  if (std::ssize(prompt.ids) > model.config.training.seq_len)
    throw user_error(fmt::format("the text has {} tokens", prompt.ids.size()),
                     fmt::format("the model was trained on windows of {}", model.config.training.seq_len),
                     "give a shorter text");
  return prompt;
}

Filled fill_masks(LoadedModel& model, const Filling& request) {
  const c10::InferenceMode no_gradients;
  data::MaskedPrompt prompt = masked_prompt(model, request.text);
  std::vector<int64_t>& open = prompt.open;
  const auto S = std::ssize(prompt.ids);
  model::Transformer transformer(model.shape, model.plan, 1, S,
                                 {.dtype = model.dtype, .loss_chunk_tokens = 64, .device = model.weights->device()});
  const std::vector<bool> no_text = data::special_ids(*model.tokenizer, model.shape.V);
  const RandomKey key = random_key(request.seed, "fill");
  Filled filled;
  while (!open.empty()) {
    const Guess guess = surest(model, transformer, prompt.ids, open, no_text);
    const double uniform = random_uniform(key, filled.positions.size());
    const int64_t position = open[guess.index];
    prompt.ids[static_cast<size_t>(position)] =
        static_cast<int32_t>(decode::sample_token(guess.logits, request.sampling, uniform));
    filled.positions.push_back(position);
    open.erase(open.begin() + static_cast<std::ptrdiff_t>(guess.index));
  }
  filled.text = prompt.text(*model.tokenizer);
  filled.ids = std::move(prompt.ids);
  return filled;
}

}  // namespace hearth::infer
