// SPDX-License-Identifier: Apache-2.0
#include "data/study/token_weights.h"

#include <algorithm>

#include "base/error_list.h"
#include "data/formats/label_weights.h"
#include "formats/npy.h"
#include "recordings/vocabulary.h"

namespace hearth::data {

std::vector<float> token_weights(const SplitStats& stats, const tokenizer::Tokenizer& tokenizer, int64_t cap_id) {
  std::vector<int64_t> counts = stats.token_counts;
  const bool is_arrays = tokenizer.arrays() != nullptr;
  if (is_arrays) counts[*tokenizer.bos()] = 0;
  const auto count_of = [&](int64_t id) { return counts[static_cast<size_t>(id)]; };
  int64_t cap = std::min(cap_id, static_cast<int64_t>(counts.size()) - 1);
  while (cap >= 0 && count_of(cap) == 0) --cap;
  if (cap < 0)
    throw user_error(fmt::format("no token up to id {} occurs in split {}", cap_id, stats.name),
                     "the largest weight is that of one of these tokens", "give a larger --weight-cap");
  double total = 0;
  for (const int64_t count : counts) total += static_cast<double>(count);
  const auto weight_of = [&](int64_t id) { return total / static_cast<double>(count_of(id)); };
  std::vector<float> weights;
  for (int64_t id = 0; id < static_cast<int64_t>(counts.size()); ++id) {
    const double weight = count_of(id) == 0 ? weight_of(cap) : std::min(weight_of(id), weight_of(cap));
    weights.push_back(static_cast<float>(weight));
  }
  if (is_arrays) weights[*tokenizer.bos()] = 1;
  return weights;
}

std::vector<float> read_token_weights(const Path& path, int64_t vocab_size) {
  std::vector<float> weights = formats::read_npy_vector(path);
  const char* fix = "make it with `hearth data stats --token-weights FILE DIR` from the training data";
  ErrorList errors;
  errors.attempt([&] {
    if (vocab_size > 0 && static_cast<int64_t>(weights.size()) != vocab_size)
      throw user_error(fmt::format("{} has {} token weights", path.string(), weights.size()),
                       fmt::format("the tokenizer has {} ids", vocab_size), fix);
  });
  errors.attempt([&] {
    const auto wrong = std::ranges::find_if_not(weights, is_weight);
    if (wrong != weights.end())
      throw user_error(fmt::format("{}: the weight of token {} is {}", path.string(), wrong - weights.begin(), *wrong),
                       "weights are finite and not negative", fix);
    if (std::ranges::all_of(weights, [](float weight) { return weight == 0; }))
      throw user_error(fmt::format("{}: the weights of all tokens are 0", path.string()),
                       "no label would count in the loss", fix);
  });
  errors.throw_if_any(path.string());
  return weights;
}

}  // namespace hearth::data
