// SPDX-License-Identifier: Apache-2.0
#include "data/batch/masking.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "base/random.h"
#include "base/text.h"
#include "data/batch/batch.h"

namespace hearth::data {
namespace {

using tokenizer::SpecialToken;

// A probability as a bound on 32 random bits.
uint64_t bound_of(double probability) { return static_cast<uint64_t>(std::llround(std::ldexp(probability, 32))); }

}  // namespace

int32_t mask_id_of(const config::Objective& objective, const tokenizer::Tokenizer& tokenizer, int64_t rows) {
  const std::vector<SpecialToken>& special = tokenizer.special_tokens();
  if (objective.mask_id >= 0) {
    if (objective.mask_id < rows) return static_cast<int32_t>(objective.mask_id);
    throw user_error(fmt::format("objective.mask_id = {} is outside the vocabulary of {}", objective.mask_id, rows),
                     "the embedding has no row for it", "give an id below, or a larger model.vocab_size")
        .about("objective.mask_id");
  }
  const auto find = [&special](std::string_view text) { return std::ranges::find(special, text, &SpecialToken::text); };
  if (!objective.mask_token.empty()) {
    if (const auto found = find(objective.mask_token); found != special.end()) return static_cast<int32_t>(found->id);
    std::vector<std::string> names;
    for (const SpecialToken& token : special) names.push_back(token.text);
    if (names.size() > 12) names.resize(12);
    throw user_error(
        fmt::format("objective.mask_token = \"{}\" is not a special token of the tokenizer", objective.mask_token),
        special.empty()
            ? "it has no special tokens"
            : fmt::format("it has {}: {}{}", special.size(), join(names), special.size() > names.size() ? ", ..." : ""),
        "name one of them, or give objective.mask_id")
        .about("objective.mask_token");
  }
  for (const std::string_view usual : {"[MASK]", "<mask>", "<|mask|>"}) {
    if (const auto found = find(usual); found != special.end()) return static_cast<int32_t>(found->id);
  }
  throw user_error("the tokenizer has no mask token, and the run file names no token",
                   fmt::format("objective.kind = \"{}\" shows it in place of hidden tokens", name_of(objective.kind)),
                   fmt::format("name an unused special token (objective.mask_token), or add a row for it: "
                               "objective.mask_id = {}, model.vocab_size = {}",
                               rows, rows + 1))
      .about("objective.kind");
}

Masking masking_of(const config::Objective& objective, const tokenizer::Tokenizer& tokenizer, int64_t rows) {
  Masking masking;
  masking.probability = objective.mlm_probability;
  masking.mask_id = mask_id_of(objective, tokenizer, rows);
  masking.mask_share = objective.mask_replace_prob;
  masking.random_share = objective.random_replace_prob;
  masking.vocab_size = tokenizer.vocab_size();
  masking.at_least_one = objective.at_least_one_mask;
  if (!objective.mask_special_tokens) masking.never = special_ids(tokenizer, rows);
  return masking;
}

std::vector<bool> special_ids(const tokenizer::Tokenizer& tokenizer, int64_t rows) {
  std::vector<bool> special(static_cast<size_t>(rows));
  for (const SpecialToken& token : tokenizer.special_tokens()) special[token.id] = true;
  for (const auto id : {tokenizer.bos(), tokenizer.eos()})
    if (id) special[*id] = true;
  return special;
}

void mask_row(const Masking& masking, uint64_t seed, uint64_t g, std::span<int32_t> tokens, std::span<int32_t> labels,
              std::span<const float> weights) {
  HEARTH_CHECK(tokens.size() == labels.size());
  // The name is part of the key: never change.
  const RandomKey key = random_key(seed, "mask");
  const uint64_t hidden_below = bound_of(masking.probability), mask_below = bound_of(masking.mask_share),
                 random_below = mask_below + bound_of(masking.random_share);
  std::fill(labels.begin(), labels.end(), kIgnore);
  // One block of Philox per position: whether it is hidden, what it shows, and the random token.
  const auto hide = [&](size_t p, const std::array<uint32_t, 4>& random) {
    labels[p] = tokens[p];
    if (random[1] < mask_below)
      tokens[p] = masking.mask_id;
    else if (random[1] < random_below)
      tokens[p] =
          static_cast<int32_t>((uint64_t{random[2]} << 32 | random[3]) % static_cast<uint64_t>(masking.vocab_size));
  };
  bool any = false;
  size_t next = tokens.size();  // the first position that a higher probability would hide
  uint64_t next_bits = ~uint64_t{0};
  for (size_t p = 0; p < tokens.size(); ++p) {
    if (!masking.never.empty() && masking.never[static_cast<size_t>(tokens[p])]) continue;
    if (!weights.empty() && weights[p] == 0) continue;
    const auto random = philox(key, p, g);
    if (random[0] < hidden_below) {
      hide(p, random);
      any = true;
    } else if (random[0] < next_bits) {
      next = p;
      next_bits = random[0];
    }
  }
  if (!any && masking.at_least_one && next < tokens.size()) hide(next, philox(key, next, g));
}

}  // namespace hearth::data
