// SPDX-License-Identifier: Apache-2.0
#include "infer/denoise.h"

#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/random.h"
#include "data/batch/masking.h"
#include "infer/decoding.h"
#include "infer/text_writer.h"
#include "ops/tensor.h"

namespace hearth::infer {
namespace {

// The token for a mask, and its probability.
struct Proposal {
  int64_t place = 0;
  int32_t token = 0;
  double certainty = 0;
};

class Denoiser {
 public:
  Denoiser(LoadedModel& model, const DenoisingRules& rules, uint64_t seed, int64_t length)
      : model_(model),
        rules_(rules),
        mask_id_(data::mask_id_of(model.config.objective, *model.tokenizer, model.shape.V)),
        key_(random_key(seed, "denoise")),
        transformer_(model.shape, model.plan, 1, length,
                     {.dtype = model.dtype, .loss_chunk_tokens = 64, .device = model.weights->device()}) {}

  // Fills `count` of the places `open` in `ids`, and removes them from `open`.
  void step(std::vector<int32_t>& ids, std::vector<int64_t>& open, int64_t count) {
    const uint64_t number = steps_++;
    std::vector<Proposal> proposals = propose(ids, open, number);
    const auto surer = [](const Proposal& a, const Proposal& b) {
      return a.certainty != b.certainty ? a.certainty > b.certainty : a.place < b.place;
    };
    std::sort(proposals.begin(), proposals.end(), surer);
    proposals.resize(static_cast<size_t>(count));
    for (const Proposal& filled : proposals) {
      ids[static_cast<size_t>(filled.place)] = filled.token;
      std::erase(open, filled.place);
    }
  }

 private:
  std::vector<Proposal> propose(const std::vector<int32_t>& ids, const std::vector<int64_t>& open, uint64_t number) {
    compute_sequences(transformer_, *model_.weights, ids, std::vector<int32_t>{0});
    std::vector<int64_t> predicted_at = open;
    if (model_.config.objective.shift_logits)
      for (int64_t& place : predicted_at) --place;
    const at::Tensor logits_NV =
        transformer_.logits(*model_.weights, ops::from_int64(predicted_at, model_.weights->device()));
    const int64_t V = std::min(logits_NV.size(1), model_.tokenizer->vocab_size());
    std::vector<Proposal> proposals;
    for (size_t i = 0; i < open.size(); ++i) {
      std::vector<double> logits = ops::to_doubles(logits_NV.select(0, static_cast<int64_t>(i)).narrow(0, 0, V));
      if (mask_id_ < V) logits[static_cast<size_t>(mask_id_)] = -std::numeric_limits<double>::infinity();
      check_numbers(logits, model_);
      const auto place = static_cast<uint64_t>(open[i]);
      const double uniform = random_uniform(key_, number * ids.size() + place);
      const int64_t token = decode::sample_token(logits, rules_.sampling, uniform);
      proposals.push_back({open[i], static_cast<int32_t>(token), decode::probability(logits, token)});
    }
    return proposals;
  }

  LoadedModel& model_;
  const DenoisingRules& rules_;
  const int32_t mask_id_;
  const RandomKey key_;
  model::Transformer transformer_;
  uint64_t steps_ = 0;
};

}  // namespace

DenoisingRules denoising_rules(const config::GenerateOptions& options) {
  const int64_t N = options.max_tokens;
  const DenoisingRules rules{.max_tokens = N,
                             .steps = options.steps > 0 ? options.steps : N,
                             .block_length = options.block_length > 0 ? options.block_length : N,
                             .sampling = sampling_of(options)};
  if (rules.block_length > N || N % rules.block_length != 0)
    throw user_error(fmt::format("--block-length {} does not divide --max-tokens {}", rules.block_length, N),
                     "the text is made of whole blocks", "change one of them");
  const int64_t blocks = N / rules.block_length;
  if (rules.steps > N || rules.steps % blocks != 0)
    throw user_error(fmt::format("--steps {} is no number of steps for {} tokens in {} {}", rules.steps, N, blocks,
                                 blocks == 1 ? "block" : "blocks"),
                     "a step fills in at least one token, and every block has as many steps",
                     fmt::format("give a multiple of {}, at most {}", blocks, N));
  return rules;
}

void check_fits(const LoadedModel& model, const std::vector<int32_t>& prompt, const DenoisingRules& rules) {
  const int64_t length = std::ssize(prompt) + rules.max_tokens;
  if (length <= model.config.training.seq_len) return;
  throw user_error(fmt::format("prompt and text have {} tokens", length),
                   fmt::format("the model was trained on windows of {}, and computes all of them at a time",
                               model.config.training.seq_len),
                   "give a smaller --max-tokens, or a shorter prompt");
}

std::vector<int32_t> denoise(LoadedModel& model, const std::vector<int32_t>& prompt, const DenoisingRules& rules,
                             uint64_t seed) {
  const c10::InferenceMode no_gradients;
  check_fits(model, prompt, rules);
  const int64_t begin = std::ssize(prompt), length = begin + rules.max_tokens;
  Denoiser denoiser(model, rules, seed, length);
  std::vector<int32_t> ids = prompt;
  ids.resize(static_cast<size_t>(length), data::mask_id_of(model.config.objective, *model.tokenizer, model.shape.V));
  const int64_t steps = rules.steps / (rules.max_tokens / rules.block_length);
  for (int64_t block = begin; block < length; block += rules.block_length) {
    std::vector<int64_t> open;
    for (int64_t i = 0; i < rules.block_length; ++i) open.push_back(block + i);
    // As equal numbers as possible; the first steps fill one more.
    for (int64_t step = 0; step < steps; ++step)
      denoiser.step(ids, open, rules.block_length / steps + (step < rules.block_length % steps ? 1 : 0));
  }
  return {ids.begin() + begin, ids.end()};
}

DenoisedText denoised_text(LoadedModel& model, const std::vector<int32_t>& prompt, const DenoisingRules& rules,
                           const std::vector<std::string>& stop, uint64_t seed) {
  DenoisedText result{{}, {std::ssize(prompt), 0, false}, std::string(name_of(Ending::kLength))};
  std::vector<uint32_t> ids;
  for (const int32_t id : denoise(model, prompt, rules, seed)) {
    result.counts.ended = model.tokenizer->eos() == static_cast<uint32_t>(id);
    if (result.counts.ended) break;
    ids.push_back(static_cast<uint32_t>(id));
  }
  result.counts.generated_tokens = std::ssize(ids);
  if (result.counts.ended) result.stop = name_of(Ending::kEos);
  result.text = model.tokenizer->decode_all(ids);
  size_t end = std::string::npos;
  for (const std::string& text : stop) end = std::min(end, result.text.find(text));
  if (end == std::string::npos) return result;
  result.text.resize(end);
  result.counts.ended = false;
  result.stop = name_of(Ending::kStop);
  return result;
}

}  // namespace hearth::infer
