// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/formats/huggingface_model.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tokenizer/unicode/byte_alphabet.h"

namespace hearth::tokenizer {
namespace {

using Json = nlohmann::json;

// Ids may have holes, but a table over all ids must not be much larger than the file.
constexpr uint64_t kHoles = 4, kMoreHoles = 1 << 16;

void check_settings(const Node& node) {
  const std::string type = node.string_or("type", "BPE");
  if (type != "BPE") throw node.unknown_type("BPE, Unigram, WordPiece");
  node.allow_keys({"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk",
                   "byte_fallback", "ignore_merges", "vocab", "merges"});
  if (node.has("dropout") && node.at("dropout").json() != 0)
    throw node.at("dropout").wrong("is set", "ids would be random", "set it to null");
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (!node.string_or(key, "").empty()) throw node.at(key).wrong("is set, which Hearth does not read");
}

// Vocabularies are large, so a Node (with its path) is made only for an error.
bool is_id(const Json& json) { return json.is_number_unsigned() && json.get<uint64_t>() < kNoToken; }

VocabularyIndex read_vocabulary(const Node& node) {
  if (!node.json().is_object()) throw node.wrong("is not an object");
  VocabularyIndex index;
  index.reserve(node.json().size());
  uint64_t largest = 0;
  for (const auto& [key, value] : node.json().items()) {
    const uint32_t id = is_id(value) ? value.get<uint32_t>() : node.at(key).as_id();
    index.emplace(key, id);
    largest = std::max<uint64_t>(largest, id);
  }
  if (index.empty()) throw node.wrong("is empty");
  if (largest >= kHoles * index.size() + kMoreHoles)
    throw node.wrong(fmt::format("has {} tokens, but ids up to {}", index.size(), largest));
  return index;
}

// The two sides of a merge: ["a", "b"], or "a b" in older files. False for any other form.
bool split_merge(const Json& json, std::string& left, std::string& right) {
  if (json.is_array()) {
    if (json.size() != 2 || !json[0].is_string() || !json[1].is_string()) return false;
    left = json[0].get_ref<const std::string&>();
    right = json[1].get_ref<const std::string&>();
    return true;
  }
  if (!json.is_string()) return false;
  const std::string& text = json.get_ref<const std::string&>();
  const size_t space = text.find(' ');
  if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos) return false;
  left.assign(text, 0, space);
  right.assign(text, space + 1);
  return true;
}

bool is_version_line(const Json& json) {
  return json.is_string() && json.get_ref<const std::string&>().starts_with("#version");
}

std::vector<Merge> read_merges(const Node& model, const VocabularyIndex& index) {
  const Json& list = model.at("merges").json();
  if (!list.is_array()) throw model.at("merges").wrong("is not a list");
  std::vector<Merge> merges;
  merges.reserve(list.size());
  std::string left, right;
  for (size_t i = 0; i < list.size(); ++i) {
    if (is_version_line(list[i])) continue;
    if (!split_merge(list[i], left, right))
      throw model.items("merges")[i].wrong("is not two tokens: [\"a\", \"b\"] or \"a b\"");
    const auto id_of = [&](const std::string& text) {
      const auto found = index.find(text);
      if (found == index.end())
        throw model.items("merges")[i].wrong("uses or makes a token that is not in the vocabulary");
      return found->second;
    };
    merges.push_back({id_of(left), id_of(right), id_of(left + right)});
  }
  return merges;
}

// Bytes of no UTF-8 text. `tokenizers` never meets them, and the vocabularies of GPT-NeoX-20B lack them.
bool is_never_in_utf8(unsigned byte) { return byte == 0xC0 || byte == 0xC1 || byte >= 0xF5; }

// Byte-level: keys are spelled in GPT-2's alphabet. Text never produces a key outside this alphabet (special tokens).
void use_bytes(const Node& node, const VocabularyIndex& index, HuggingFaceFile& file) {
  std::vector<bool> single(256, false), reachable(file.tokens.size(), false);
  for (const auto& [key, id] : index) {
    const auto bytes = bytes_of_alphabet(key);
    if (!bytes) {
      file.unreachable.emplace_back(id, key);
      continue;
    }
    file.tokens[id] = *bytes;
    reachable[id] = true;
    if (bytes->size() == 1) single[static_cast<unsigned char>((*bytes)[0])] = true;
  }
  std::erase_if(file.merges, [&](const Merge& m) { return !reachable[m.left] || !reachable[m.right]; });
  std::sort(file.unreachable.begin(), file.unreachable.end());
  for (unsigned byte = 0; byte < 256; ++byte) {
    if (single[byte]) continue;
    file.replaces_invalid = true;
    if (!is_never_in_utf8(byte))
      throw node.at("vocab").wrong(fmt::format("has no token for byte 0x{:02X}", byte),
                                   "this byte would be lost from texts",
                                   "train the tokenizer with the whole byte-level alphabet");
  }
}

void use_characters(const Node& node, const VocabularyIndex& index, HuggingFaceFile& file) {
  if (!node.flag_or("byte_fallback", false))
    throw node.at("byte_fallback")
        .wrong("is not true, and pre_tokenizer has no ByteLevel", "text outside the vocabulary would be lost");
  for (const auto& [key, id] : index) file.tokens[id] = key;
  std::vector<bool> is_byte(file.tokens.size(), false);
  for (unsigned byte = 0; byte < 256; ++byte) {
    const auto found = index.find(fmt::format("<0x{:02X}>", byte));
    if (found == index.end())
      throw node.at("vocab").wrong(fmt::format("has no token <0x{:02X}>", byte), "byte_fallback needs all 256");
    file.byte_tokens.push_back(found->second);
    is_byte[found->second] = true;
  }
  for (const Merge& merge : file.merges)
    if (is_byte[merge.left] || is_byte[merge.right])
      throw node.at("merges").wrong("join a byte token to others, which Hearth does not read");
}

void use_words(const Node& node, const VocabularyIndex& index, HuggingFaceFile& file) {
  node.allow_keys({"type", "unk_token", "continuing_subword_prefix", "max_input_chars_per_word", "vocab"});
  if (file.byte_level)
    throw node.wrong("is a WordPiece model, but pre_tokenizer has ByteLevel", "Hearth reads ByteLevel with BPE only");
  const std::string unknown = node.string_or("unk_token", "[UNK]");
  const auto found = index.find(unknown);
  if (found == index.end())
    throw node.at("unk_token").wrong(fmt::format("is \"{}\", which is not in the vocabulary", unknown));
  file.word_piece.emplace();
  file.word_piece->unknown = found->second;
  file.word_piece->prefix = node.string_or("continuing_subword_prefix", "##");
  if (node.has("max_input_chars_per_word")) file.word_piece->max_characters = node.id("max_input_chars_per_word");
  for (const auto& [key, id] : index) file.tokens[id] = key;
}

}  // namespace

VocabularyIndex read_model(const Node& node, std::string_view json, HuggingFaceFile& file) {
  const std::string type = node.string_or("type", "");
  if (type == "Unigram") return read_unigram(node, json, file);
  if (type != "WordPiece") check_settings(node);
  VocabularyIndex index = read_vocabulary(node.at("vocab"));
  uint32_t largest = 0;
  for (const auto& [key, id] : index) largest = std::max(largest, id);
  std::vector<bool> used(size_t{largest} + 1, false);
  for (const auto& [key, id] : index) {
    if (used[id]) throw node.at("vocab").wrong(fmt::format("has two tokens of id {}", id));
    used[id] = true;
  }
  file.tokens.resize(used.size());
  if (type == "WordPiece") {
    use_words(node, index, file);
    return index;
  }
  file.ignore_merges = node.flag_or("ignore_merges", false);
  file.merges = read_merges(node, index);
  if (file.byte_level)
    use_bytes(node, index, file);
  else
    use_characters(node, index, file);
  return index;
}

}  // namespace hearth::tokenizer
