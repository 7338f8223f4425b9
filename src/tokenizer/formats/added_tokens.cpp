// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/formats/added_tokens.h"

#include <algorithm>
#include <cstring>

#include "tokenizer/unicode/unicode.h"

namespace hearth::tokenizer {
namespace {

// `\w` of Rust's regex crate, which single_word uses: Alphabetic, marks, decimal digits, connectors, joiners. Beyond
// letters, letter numbers and marks, Alphabetic contains only the circled and squared Latin letters.
bool is_word(char32_t c) {
  const Category k = category(c);
  return is_letter(c) || is_mark(c) || k == Category::kNl || k == Category::kNd || k == Category::kPc || c == 0x200C ||
         c == 0x200D || (c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) ||
         (c >= 0x1F150 && c <= 0x1F169) || (c >= 0x1F170 && c <= 0x1F189);
}

bool ends_with_word(std::string_view text, size_t end) {
  return end > 0 && is_word(decode_utf8(text, previous_character(text, end)).c);
}

bool starts_with_word(std::string_view text, size_t begin) {
  return begin < text.size() && is_word(decode_utf8(text, begin).c);
}

std::vector<AddedToken> as_added(const std::vector<SpecialToken>& special) {
  std::vector<AddedToken> added;
  for (const SpecialToken& token : special)
    if (!token.text.empty()) added.push_back({.text = token.text, .id = token.id, .special = true});
  return added;
}

size_t two_bytes(unsigned char first, unsigned char second) { return size_t{first} << 8 | second; }

}  // namespace

AddedTokens::AddedTokens(const std::vector<SpecialToken>& tokens) : AddedTokens(as_added(tokens)) {}

AddedTokens::AddedTokens(std::vector<AddedToken> tokens)
    : tokens_(std::move(tokens)), ends_{-1}, starts_(1 << 16, false), single_(256, false) {
  std::vector<bool> first(256, false);
  for (size_t i = 0; i < tokens_.size(); ++i) {
    const std::string& text = tokens_[i].text;
    longest_ = std::max(longest_, text.size());
    const auto lead = static_cast<unsigned char>(text[0]);
    first[lead] = true;
    if (text.size() == 1) {
      single_[lead] = true;
      for (unsigned second = 0; second < 256; ++second)
        starts_[two_bytes(lead, static_cast<unsigned char>(second))] = true;
    } else {
      starts_[two_bytes(lead, static_cast<unsigned char>(text[1]))] = true;
    }
    uint32_t node = 0;
    for (const char byte : text) {
      const auto [edge, is_new] = edges_.try_emplace(uint64_t{node} << 8 | static_cast<unsigned char>(byte),
                                                     static_cast<uint32_t>(ends_.size()));
      if (is_new) ends_.push_back(-1);
      node = edge->second;
    }
    if (ends_[node] < 0) ends_[node] = static_cast<int32_t>(i);  // the first one among equal texts
  }
  if (std::count(first.begin(), first.end(), true) == 1)
    first_byte_ = static_cast<int>(std::find(first.begin(), first.end(), true) - first.begin());
}

// The next place at or after `from` whose bytes may begin a token.
size_t AddedTokens::next_start(std::string_view text, size_t from) const {
  for (; from < text.size(); ++from) {
    if (first_byte_ >= 0) {
      const void* found = std::memchr(text.data() + from, first_byte_, text.size() - from);
      if (found == nullptr) return text.size();
      from = static_cast<size_t>(static_cast<const char*>(found) - text.data());
    }
    const auto lead = static_cast<unsigned char>(text[from]);
    if (from + 1 == text.size()) return single_[lead] ? from : text.size();
    if (starts_[two_bytes(lead, static_cast<unsigned char>(text[from + 1]))]) return from;
  }
  return text.size();
}

bool AddedTokens::next(std::string_view text, size_t from, Match& match) const {
  for (size_t begin = next_start(text, from); begin < text.size(); begin = next_start(text, begin + 1)) {
    match.token = nullptr;
    uint32_t node = 0;
    for (size_t at = begin; at < text.size(); ++at) {
      const auto edge = edges_.find(uint64_t{node} << 8 | static_cast<unsigned char>(text[at]));
      if (edge == edges_.end()) break;
      node = edge->second;
      if (ends_[node] >= 0) match = {begin, at + 1, &tokens_[static_cast<size_t>(ends_[node])]};
    }
    if (match.token != nullptr) return true;
  }
  return false;
}

size_t AddedTokens::find(std::string_view text, size_t from) const {
  Match match{};
  return !empty() && next(text, from, match) ? match.begin : text.size();
}

void AddedTokens::split(std::string_view text, SpecialText special, std::vector<TextPart>& parts,
                        int64_t& special_seen) const {
  parts.clear();
  size_t done = 0;
  Match match{};
  for (size_t from = 0; !empty() && next(text, from, match); from = match.end) {
    const AddedToken& token = *match.token;
    if (token.special) ++special_seen;
    if (token.special && special == SpecialText::kPlain) continue;
    if (token.single_word && (ends_with_word(text, match.begin) || starts_with_word(text, match.end))) continue;
    const size_t begin = token.strip_left ? skip_white_space_back(text, match.begin, done) : match.begin;
    const size_t end = token.strip_right ? skip_white_space(text, match.end) : match.end;
    if (done < begin) parts.push_back({done, begin, {}});
    parts.push_back({begin, end, token.id});
    done = end;
  }
  if (done < text.size()) parts.push_back({done, text.size(), {}});
}

}  // namespace hearth::tokenizer
