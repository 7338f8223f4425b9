// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/normalizer/charsmap.h"

#include <cstring>

#include "base/error.h"
#include "tokenizer/unicode/graphemes.h"
#include "tokenizer/unicode/unicode.h"

namespace hearth::tokenizer {
namespace {

constexpr size_t kClusterBytes = 6;  // a longer cluster is never looked up as a whole

// The parts of a unit of darts-clone.
bool has_leaf(uint32_t unit) { return (unit >> 8 & 1) != 0; }
uint32_t value_of(uint32_t unit) { return unit & 0x7FFFFFFF; }
uint32_t label_of(uint32_t unit) { return unit & 0x800000FF; }
size_t offset_of(uint32_t unit) { return size_t{unit} >> 10 << ((unit & 1U << 9) >> 6); }

Error damaged_map(const std::string& place, std::string why) {
  return user_error(place + " is no map of SentencePiece", std::move(why),
                    "the file may be damaged; download it again");
}

}  // namespace

Charsmap::Charsmap(std::string_view bytes, const std::string& place) {
  uint32_t trie_bytes = 0;
  if (bytes.size() < sizeof trie_bytes) throw damaged_map(place, "it has fewer than 4 bytes");
  std::memcpy(&trie_bytes, bytes.data(), sizeof trie_bytes);
  bytes.remove_prefix(sizeof trie_bytes);
  if (trie_bytes == 0 || trie_bytes % sizeof(uint32_t) != 0 || trie_bytes > bytes.size())
    throw damaged_map(place, fmt::format("its trie has {} bytes, and {} bytes follow", trie_bytes, bytes.size()));
  units_.resize(trie_bytes / sizeof(uint32_t));
  std::memcpy(units_.data(), bytes.data(), trie_bytes);
  replacements_ = bytes.substr(trie_bytes);
  check(place);
  for (unsigned c = 0; c < is_kept_.size(); ++c) is_kept_[c] = !find(std::string(1, static_cast<char>(c)));
}

// Walks all nodes once, so that find() needs no checks.
void Charsmap::check(const std::string& place) const {
  std::string valid;
  if (append_valid_utf8(replacements_, valid) != 0) throw damaged_map(place, "a replacement is not valid UTF-8");
  std::vector<bool> seen(units_.size(), false);
  std::vector<size_t> open;
  const auto visit = [&](size_t node) {
    if (node >= units_.size()) throw damaged_map(place, "its trie refers to a place behind its end");
    if (seen[node]) return;
    seen[node] = true;
    open.push_back(node);
  };
  visit(offset_of(units_[0]));
  while (!open.empty()) {
    const size_t node = open.back();
    open.pop_back();
    for (uint32_t byte = 1; byte < 256; ++byte) {
      const size_t next = node ^ byte;
      if (next >= units_.size()) throw damaged_map(place, "its trie refers to a place behind its end");
      const uint32_t unit = units_[next];
      if (label_of(unit) != byte) continue;
      const size_t below = next ^ offset_of(unit);
      visit(below);
      if (!has_leaf(unit)) continue;
      const uint32_t value = value_of(units_[below]);
      if (value > replacements_.size() ||
          (value < replacements_.size() && (static_cast<unsigned char>(replacements_[value]) & 0xC0) == 0x80))
        throw damaged_map(place, "its trie refers to a replacement that does not exist");
    }
  }
}

std::optional<std::string_view> Charsmap::find(std::string_view text) const {
  size_t node = offset_of(units_[0]);
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte == 0) return {};
    node ^= byte;
    const uint32_t unit = units_[node];
    if (label_of(unit) != byte) return {};
    node ^= offset_of(unit);
    if (!has_leaf(unit)) continue;
    const std::string_view rest = std::string_view(replacements_).substr(value_of(units_[node]));
    return rest.substr(0, rest.find('\0'));
  }
  return {};
}

void Charsmap::append(std::string_view text, std::string& out) const {
  for (size_t at = 0; at < text.size();) {
    const auto first = static_cast<unsigned char>(text[at]);
    // An ASCII character before another one is a cluster, except \r before \n.
    if (first < 0x80 && first != '\r' && is_kept_[first] &&
        (at + 1 == text.size() || static_cast<unsigned char>(text[at + 1]) < 0x80)) {
      out.push_back(text[at++]);
      continue;
    }
    const size_t end = grapheme_end(text, at);
    if (end - at < kClusterBytes) {
      if (const auto replacement = find(text.substr(at, end - at))) {
        out += *replacement;
        at = end;
        continue;
      }
    }
    while (at < end) {
      const std::string_view character = text.substr(at, decode_utf8(text, at).length);
      out += find(character).value_or(character);
      at += character.size();
    }
  }
}

}  // namespace hearth::tokenizer
