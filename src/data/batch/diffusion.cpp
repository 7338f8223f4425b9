// SPDX-License-Identifier: Apache-2.0
#include "data/batch/diffusion.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "data/batch/batch.h"
#include "data/batch/masking.h"

namespace hearth::data {
namespace {

// The names are parts of keys: never change.
constexpr std::string_view kRate = "diffusion rate", kHidden = "diffusion", kLength = "diffusion length",
                           kBoundCount = "bound count", kBound = "bound";

uint64_t bits_of(RandomKey key, uint64_t low, uint64_t high) {
  const auto random = philox(key, low, high);
  return uint64_t{random[0]} << 32 | random[1];
}

// Uniform in [0, 1), 53 bits.
double uniform_of(RandomKey key, uint64_t low, uint64_t high) {
  return std::ldexp(static_cast<double>(bits_of(key, low, high) >> 11), -53);
}

// Places of a row that may be hidden, all of one sequence, which begins at `begin`.
struct Sequence {
  size_t begin = 0;
  std::vector<size_t> places{};
};

// The hidden places of a sequence, and the weight of their losses.
struct Hidden {
  std::vector<size_t> places{};
  double weight = 1;
};

// A place depends on its own number alone, so it does not matter where a batch is cut.
Hidden hidden_at_rate(const Diffusion& diffusion, uint64_t seed, uint64_t g, const Sequence& sequence) {
  const double t = uniform_of(random_key(seed, kRate), sequence.begin, g);
  const double p = (1 - diffusion.eps) * t + diffusion.eps;
  const RandomKey key = random_key(seed, kHidden);
  Hidden hidden{{}, 1 / p};
  for (const size_t place : sequence.places)
    if (uniform_of(key, place, g) < p) hidden.places.push_back(place);
  return hidden;
}

// LLaDA's evaluation spreads the counts of a sequence's draws evenly over 1 to L, from a random one on; each alone is
// uniform.
size_t hidden_count(RandomKey key, const Diffusion& diffusion, uint64_t g, const Sequence& sequence) {
  const size_t L = sequence.places.size();
  const auto N = static_cast<uint64_t>(diffusion.draws);
  const size_t first = static_cast<size_t>(bits_of(key, sequence.begin, g / N) % L);
  const double apart = static_cast<double>(L) / static_cast<double>(N);
  const auto further = static_cast<size_t>(std::llround(static_cast<double>(g % N) * apart));
  return (first + further) % L + 1;
}

Hidden hidden_of_draw(const Diffusion& diffusion, uint64_t seed, uint64_t g, const Sequence& sequence) {
  const size_t l = hidden_count(random_key(seed, kBoundCount), diffusion, g, sequence);
  const RandomKey key = random_key(seed, kBound);
  std::vector<std::pair<uint64_t, size_t>> order;
  for (const size_t place : sequence.places) order.emplace_back(bits_of(key, place, g), place);
  std::nth_element(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(l - 1), order.end());
  Hidden hidden{{}, static_cast<double>(sequence.places.size()) / static_cast<double>(l)};
  for (size_t i = 0; i < l; ++i) hidden.places.push_back(order[i].second);
  return hidden;
}

void hide(const Diffusion& diffusion, uint64_t seed, uint64_t g, const Sequence& sequence,
          const std::vector<float>& token_weights, const DiffusionRow& row) {
  if (sequence.places.empty()) return;
  const Hidden hidden =
      diffusion.draws > 0 ? hidden_of_draw(diffusion, seed, g, sequence) : hidden_at_rate(diffusion, seed, g, sequence);
  for (const size_t place : hidden.places) {
    const size_t predicted_at = diffusion.shifted ? place - 1 : place;
    row.labels[predicted_at] = row.tokens[place];
    row.weights[predicted_at] = static_cast<float>(hidden.weight * static_cast<double>(token_weights[place]));
    row.tokens[place] = diffusion.mask_id;
  }
}

}  // namespace

Diffusion diffusion_of(const config::Objective& objective, config::AttentionScope scope,
                       const tokenizer::Tokenizer& tokenizer, int64_t rows) {
  return {.eps = objective.diffusion_eps,
          .random_length_prob = objective.random_length_prob,
          .mask_id = mask_id_of(objective, tokenizer, rows),
          .per_document = scope == config::AttentionScope::kDocument,
          .shifted = objective.shift_logits};
}

size_t kept_length(const Diffusion& diffusion, uint64_t seed, uint64_t g, size_t length) {
  if (diffusion.draws > 0 || length == 0) return length;
  const RandomKey key = random_key(seed, kLength);
  if (uniform_of(key, 0, g) >= diffusion.random_length_prob) return length;
  return static_cast<size_t>(bits_of(key, 1, g) % length) + 1;
}

void diffuse_row(const Diffusion& diffusion, uint64_t seed, uint64_t g, const DiffusionRow& row) {
  const size_t length = row.tokens.size();
  HEARTH_CHECK(row.labels.size() == length && row.weights.size() == length && row.counted.size() == length);
  const std::vector<float> token_weights(row.weights.begin(), row.weights.end());
  std::ranges::fill(row.labels, kIgnore);
  std::ranges::fill(row.counted, kIgnore);
  std::ranges::fill(row.weights, 0.0F);
  Sequence sequence;
  auto next_start = row.document_starts.begin();
  for (size_t place = 0; place < length; ++place) {
    const bool starts = next_start != row.document_starts.end() && static_cast<size_t>(*next_start) == place;
    if (starts) ++next_start;
    if (starts && diffusion.per_document) {
      hide(diffusion, seed, g, sequence, token_weights, row);
      sequence = {place, {}};
    }
    if (token_weights[place] == 0 || (diffusion.shifted && place == sequence.begin)) continue;
    sequence.places.push_back(place);
    row.counted[place] = row.tokens[place];
  }
  hide(diffusion, seed, g, sequence, token_weights, row);
}

}  // namespace hearth::data
