// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/formats/document_tokens.h"

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/hash.h"
#include "base/nearest.h"
#include "base/text.h"

namespace hearth::tokenizer {
namespace {

using Json = nlohmann::json;

constexpr const char* kConfigName = "tokenizer_config.json";
constexpr size_t kNamesShown = 12;

// Names in published tokenizers, the most specific first. A chat model has several end tokens; this list selects the
// end of a text.
constexpr std::string_view kBosNames =
    "<|begin_of_text|> <s> <bos> <|bos|> [BOS] <|startoftext|> <\uFF5Cbegin\u2581of\u2581sentence\uFF5C>";
constexpr std::string_view kEosNames =
    "<|end_of_text|> <|endoftext|> </s> <eos> <|eos|> [EOS] <\uFF5Cend\u2581of\u2581sentence\uFF5C>";

std::optional<uint32_t> find(std::span<const SpecialToken> special, std::string_view text) {
  for (const SpecialToken& token : special)
    if (token.text == text) return token.id;
  return std::nullopt;
}

uint32_t find_given(std::span<const SpecialToken> special, const std::string& text, const std::string& origin) {
  if (const auto id = find(special, text)) return *id;
  std::vector<std::string> names;
  for (const SpecialToken& token : special) names.push_back(token.text);
  const std::string meant = nearest(text, names);
  throw user_error(fmt::format("{} has no special token \"{}\"", origin, text),
                   names.empty() ? "it has no special tokens at all"
                                 : fmt::format("its special tokens: {}", join_first(names, kNamesShown)),
                   meant.empty() ? "" : fmt::format("did you mean {}?", meant));
}

std::optional<uint32_t> find_usual(std::span<const SpecialToken> special, std::string_view names) {
  for (const std::string& name : split(names, ' '))
    if (const auto id = find(special, name)) return id;
  return std::nullopt;
}

// tokenizer_config.json's "bos_token": a text, or an object with "content". Any other value counts as missing.
std::string text_of(const Json& config, const char* key) {
  const auto found = config.find(key);
  if (found == config.end()) return {};
  const Json& value = found->is_object() && found->contains("content") ? found->at("content") : *found;
  return value.is_string() ? value.get<std::string>() : std::string();
}

Json read_config(const Path& folder) {
  if (folder.empty() || !path_exists(folder / kConfigName)) return Json::object();
  Json config = Json::parse(read_file(folder / kConfigName), nullptr, /*allow_exceptions=*/false);
  if (!config.is_object())
    throw user_error(fmt::format("{} is not a JSON object", (folder / kConfigName).string()),
                     "it is in the tokenizer's folder and may name its BOS and EOS", "correct it, or move it away");
  return config;
}

}  // namespace

DocumentTokens find_document_tokens(std::span<const SpecialToken> special, const DocumentTokenSearch& search) {
  const Json config = read_config(search.folder);
  const auto choose = [&](const std::string& given, std::optional<uint32_t> in_file, const char* key,
                          std::string_view names) -> std::optional<uint32_t> {
    if (!given.empty()) return find_given(special, given, search.origin);
    if (in_file) return in_file;
    if (const auto id = find(special, text_of(config, key))) return id;
    return find_usual(special, names);
  };
  return {choose(search.bos_name, search.in_file.bos, "bos_token", kBosNames),
          choose(search.eos_name, search.in_file.eos, "eos_token", kEosNames)};
}

// Stored in manifests: never change.
std::string hash_with_document_tokens(std::string_view content, const DocumentTokens& tokens) {
  const auto text_of_id = [](std::optional<uint32_t> id) { return id ? fmt::format("{}", *id) : std::string("none"); };
  StreamingHash hash;
  hash.update(content);
  hash.update(fmt::format("\nbos {} eos {}\n", text_of_id(tokens.bos), text_of_id(tokens.eos)));
  return hash.digest_128_hex();
}

}  // namespace hearth::tokenizer
