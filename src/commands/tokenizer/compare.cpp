// SPDX-License-Identifier: Apache-2.0
// `hearth tokenizer compare`: where two tokenizers differ.
#include <algorithm>
#include <map>

#include "commands/commands.h"
#include "data/source/foreign_kind.h"
#include "tokenizer/tokenizer.h"

namespace hearth::commands {
namespace {

using tokenizer::Tokenizer;

constexpr size_t kDifferencesShown = 10, kContextTokens = 4;

// Writes bytes outside printable ASCII as \x0a; UTF-8 is kept.
std::string spelled(std::string_view text) {
  std::string line = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    line += byte < 0x20 || byte == 0x7F || c == '"' ? fmt::format("\\x{:02x}", byte) : std::string(1, c);
  }
  return line + "\"";
}

std::string bytes_of(const Tokenizer& tokenizer, int64_t id) {
  std::string text;
  if (id < tokenizer.vocab_size()) tokenizer.decode(static_cast<uint32_t>(id), text);
  return text;
}

void print_rows(const char* what, const std::vector<std::string>& rows) {
  if (rows.empty()) return fmt::print("{}: the same\n", what);
  fmt::print("{}: {} differ\n", what, rows.size());
  for (size_t i = 0; i < std::min(rows.size(), kDifferencesShown); ++i) fmt::print("  {}\n", rows[i]);
  if (rows.size() > kDifferencesShown) fmt::print("  and {} more\n", rows.size() - kDifferencesShown);
}

void compare_vocabularies(const Tokenizer& a, const Tokenizer& b) {
  std::vector<std::string> rows;
  for (int64_t id = 0; id < std::max(a.vocab_size(), b.vocab_size()); ++id) {
    const std::string in_a = bytes_of(a, id), in_b = bytes_of(b, id);
    if (in_a != in_b) rows.push_back(fmt::format("id {}: {} and {}", id, spelled(in_a), spelled(in_b)));
  }
  print_rows("text of ids", rows);
}

void compare_special_tokens(const Tokenizer& a, const Tokenizer& b) {
  std::map<std::string, std::pair<int64_t, int64_t>> ids;  // -1: missing
  for (const auto& token : a.special_tokens()) ids.try_emplace(token.text, -1, -1).first->second.first = token.id;
  for (const auto& token : b.special_tokens()) ids.try_emplace(token.text, -1, -1).first->second.second = token.id;
  const auto id_text = [](int64_t id) { return id < 0 ? std::string("none") : fmt::format("{}", id); };
  std::vector<std::string> rows;
  const auto add = [&](const std::string& name, int64_t in_a, int64_t in_b) {
    if (in_a != in_b) rows.push_back(fmt::format("{}: {} and {}", name, id_text(in_a), id_text(in_b)));
  };
  const auto id_of = [](std::optional<uint32_t> id) { return id ? int64_t{*id} : int64_t{-1}; };
  add("BOS", id_of(a.bos()), id_of(b.bos()));
  add("EOS", id_of(a.eos()), id_of(b.eos()));
  for (const auto& [text, pair] : ids) add(text, pair.first, pair.second);
  if (a.adds_bos() != b.adds_bos())
    rows.push_back(
        fmt::format("only {} puts BOS before a text by its template", a.adds_bos() ? "the first" : "the second"));
  print_rows("special tokens", rows);
}

std::string around(const Tokenizer& tokenizer, const std::vector<uint32_t>& ids, size_t at) {
  std::string row;
  for (size_t i = at; i < std::min(ids.size(), at + kContextTokens); ++i)
    row += fmt::format(" {} {}", ids[i], spelled(bytes_of(tokenizer, ids[i])));
  return row.empty() ? " the end" : row;
}

void compare_text(const Tokenizer& a, const Tokenizer& b, const std::string& name, const std::string& text) {
  std::vector<uint32_t> in_a, in_b;
  a.encode(text, in_a);
  b.encode(text, in_b);
  if (in_a == in_b) return fmt::print("{}: the same {} ids\n", name, in_a.size());
  const auto first = std::mismatch(in_a.begin(), in_a.end(), in_b.begin(), in_b.end()).first;
  const auto at = static_cast<size_t>(first - in_a.begin());
  fmt::print("{}: {} and {} ids; they differ from id {} on:\n  first {}\n  second{}\n", name, in_a.size(), in_b.size(),
             at, around(a, in_a, at), around(b, in_b, at));
}

}  // namespace

int tokenizer_compare(CommandLine& line) {
  std::string first, second;
  std::vector<Path> files;
  line.positional("A", &first, "a tokenizer: \"bytes\", a file, or a folder");
  line.positional("B", &second, "the one to compare it with");
  line.positional("FILE", &files, "text whose ids are compared").optional();
  if (!line.parse()) return 0;
  const auto a = tokenizer::open_tokenizer(first), b = tokenizer::open_tokenizer(second);
  fmt::print("kind: {} and {}\nvocabulary: {} and {} ids\n", a->kind(), b->kind(), a->vocab_size(), b->vocab_size());
  compare_special_tokens(*a, *b);
  compare_vocabularies(*a, *b);
  for (const Path& file : files) {
    const std::string text = read_stream(file);
    data::require_text(text, file);
    compare_text(*a, *b, file.string(), text);
  }
  return 0;
}

}  // namespace hearth::commands
