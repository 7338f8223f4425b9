// SPDX-License-Identifier: Apache-2.0
#include "data/batch/masking.h"

#include <algorithm>
#include <array>
#include <cctype>
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
  masking.probability = objective.last_mlm_probability();
  masking.first_probability = objective.mlm_probability;
  masking.mask_id = mask_id_of(objective, tokenizer, rows);
  masking.mask_share = objective.mask_replace_prob;
  masking.random_share = objective.random_replace_prob;
  masking.vocab_size = tokenizer.vocab_size();
  masking.at_least_one = objective.at_least_one_mask;
  if (!objective.mask_special_tokens) masking.never = special_ids(tokenizer, rows);
  if (objective.whole_words) masking.words = word_ends(tokenizer, rows);
  return masking;
}

namespace {

bool is_letter(unsigned char byte) { return byte < 0x80 && std::isalnum(byte) != 0; }
bool continues_character(unsigned char byte) { return byte >= 0x80 && byte < 0xC0; }
// The first byte of a character from U+00C0 to U+07FF: Latin, Greek, Cyrillic, Hebrew, Arabic and others.
bool leads_letter(unsigned char byte) { return byte >= 0xC3 && byte < 0xE0; }
// U+1E00 to U+1FFF: more Latin, as Vietnamese has it, and more Greek.
bool leads_late_letter(unsigned char first, unsigned char second) { return first == 0xE1 && second >= 0xB8; }

Masking::WordEnds word_ends_of(std::string_view text) {
  if (text.empty()) return {};
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  // A token may begin or end within a character. One that is the first byte alone may become a letter.
  const bool begins = is_letter(byte(0)) || leads_letter(byte(0)) || continues_character(byte(0)) ||
                      leads_late_letter(byte(0), text.size() > 1 ? byte(1) : 0xBF);
  size_t last = text.size();
  while (last > 0 && continues_character(byte(last - 1))) --last;
  if (last == 0) return {begins, true};
  const unsigned char lead = byte(last - 1);
  const size_t bytes = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4, present = text.size() - last + 1;
  const bool is_late = last < text.size() && leads_late_letter(lead, byte(last));
  return {begins, is_letter(lead) || leads_letter(lead) || is_late || (lead >= 0xC0 && present < bytes)};
}

}  // namespace

std::vector<Masking::WordEnds> word_ends(const tokenizer::Tokenizer& tokenizer, int64_t rows) {
  if (!tokenizer.has_text())
    throw user_error("objective.whole_words = true needs the texts of tokens",
                     fmt::format("the data's tokenizer is {}, which does not know them", tokenizer.name()),
                     "leave it out, or build the data with a tokenizer of text")
        .about("objective.whole_words");
  std::vector<Masking::WordEnds> ends(static_cast<size_t>(rows));
  for (int64_t id = 0; id < std::min(rows, tokenizer.vocab_size()); ++id) {
    std::string text;
    tokenizer.decode(static_cast<uint32_t>(id), text);
    ends[static_cast<size_t>(id)] = word_ends_of(text);
  }
  return ends;
}

std::vector<bool> special_ids(const tokenizer::Tokenizer& tokenizer, int64_t rows) {
  std::vector<bool> special(static_cast<size_t>(rows));
  for (const SpecialToken& token : tokenizer.special_tokens()) special[token.id] = true;
  for (const auto id : {tokenizer.bos(), tokenizer.eos()})
    if (id) special[*id] = true;
  return special;
}

namespace {

// Texts without spaces, such as DNA, would be one word, and be hidden whole or not at all.
constexpr size_t kLongestWord = 32;  // tokens

double probability_of(const Masking& masking, uint64_t g) {
  if (masking.samples == 0) return masking.probability;
  const double done = std::min(1.0, static_cast<double>(g) / static_cast<double>(masking.samples));
  return masking.first_probability + done * (masking.probability - masking.first_probability);
}

}  // namespace

void mask_row(const Masking& masking, uint64_t seed, uint64_t g, std::span<int32_t> tokens, std::span<int32_t> labels,
              std::span<const float> weights) {
  HEARTH_CHECK(tokens.size() == labels.size());
  // The name is part of the key: never change.
  const RandomKey key = random_key(seed, "mask");
  const uint64_t hidden_below = bound_of(probability_of(masking, g)), mask_below = bound_of(masking.mask_share),
                 random_below = mask_below + bound_of(masking.random_share);
  std::fill(labels.begin(), labels.end(), kIgnore);
  // One block of Philox per position: whether it is hidden, what it shows, and the random token.
  const auto hide = [&](size_t p) {
    const std::array<uint32_t, 4> random = philox(key, p, g);
    labels[p] = tokens[p];
    if (random[1] < mask_below)
      tokens[p] = masking.mask_id;
    else if (random[1] < random_below)
      tokens[p] =
          static_cast<int32_t>((uint64_t{random[2]} << 32 | random[3]) % static_cast<uint64_t>(masking.vocab_size));
  };
  const auto may_hide = [&](size_t p) {
    if (!masking.never.empty() && masking.never[static_cast<size_t>(tokens[p])]) return false;
    return weights.empty() || weights[p] != 0;
  };
  // The word that begins at p ends before this position.
  const auto end_of_word = [&](size_t p) {
    const auto ends = [&](size_t at) { return masking.words[static_cast<size_t>(tokens[at])]; };
    size_t end = p + 1;
    if (masking.words.empty()) return end;
    const size_t last = std::min(tokens.size(), p + kLongestWord);
    while (end < last && may_hide(end) && ends(end - 1).ends && ends(end).begins) ++end;
    return end;
  };
  bool any = false;
  size_t next = tokens.size();  // the first position that a higher probability would hide
  uint64_t next_bits = ~uint64_t{0};
  for (size_t p = 0, end = 0; p < tokens.size(); p = end) {
    end = p + 1;
    if (!may_hide(p)) continue;
    end = end_of_word(p);
    const uint32_t bits = philox(key, p, g)[0];
    if (bits < hidden_below) {
      for (size_t at = p; at < end; ++at) hide(at);
      any = true;
    } else if (bits < next_bits) {
      next = p;
      next_bits = bits;
    }
  }
  if (any || !masking.at_least_one || next == tokens.size()) return;
  for (size_t at = next, end = end_of_word(next); at < end; ++at) hide(at);
}

}  // namespace hearth::data
