// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/wordpiece/wordpiece.h"

#include <algorithm>

#include "base/error.h"

namespace hearth::tokenizer {
namespace {

constexpr size_t kCachedWords = 1 << 16;  // 4 MB

bool begins_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }

}  // namespace

WordPieceVocabulary::WordPieceVocabulary(std::vector<std::string> tokens, WordPieceOptions options)
    : tokens_(std::move(tokens)), options_(std::move(options)) {
  HEARTH_CHECK(options_.unknown < tokens_.size());
  ids_.reserve(tokens_.size());
  for (uint32_t id = 0; id < tokens_.size(); ++id) {
    if (tokens_[id].empty()) continue;
    ids_.emplace(tokens_[id], id);
    longest_ = std::max(longest_, tokens_[id].size());
  }
}

WordPieceEncoder::WordPieceEncoder(const WordPieceVocabulary& vocabulary, bool cached)
    : v_(vocabulary), cache_(cached ? kCachedWords : 0) {}

void WordPieceEncoder::encode_piece(std::string_view word, std::vector<uint32_t>& ids) {
  if (word.empty()) return;
  cache_.append(word, ids, [&](std::vector<uint32_t>& to) {
    const size_t before = to.size();
    if (spell(word, to)) return;
    to.resize(before);
    to.push_back(v_.options_.unknown);
  });
}

// False if there is no spelling; `ids` has a part of one then.
bool WordPieceEncoder::spell(std::string_view word, std::vector<uint32_t>& ids) {
  const auto characters = static_cast<size_t>(std::count_if(word.begin(), word.end(), begins_character));
  if (characters > v_.options_.max_characters) return false;
  rest_ = word;
  for (size_t prefix = 0; rest_.size() > prefix;) {
    size_t end = std::min(rest_.size(), v_.longest_);
    auto found = v_.ids_.end();
    for (; end > prefix; --end) {
      if (end < rest_.size() && !begins_character(rest_[end])) continue;
      found = v_.ids_.find(std::string_view(rest_).substr(0, end));
      if (found != v_.ids_.end()) break;
    }
    if (end <= prefix) return false;
    ids.push_back(found->second);
    rest_.replace(0, end, v_.options_.prefix);
    prefix = v_.options_.prefix.size();
  }
  return true;
}

}  // namespace hearth::tokenizer
