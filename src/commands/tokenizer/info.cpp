// SPDX-License-Identifier: Apache-2.0
// `hearth tokenizer info`: what a tokenizer is.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "commands/commands.h"
#include "commands/shared_options.h"

namespace hearth::commands {
namespace {

using Json = nlohmann::ordered_json;
using tokenizer::Tokenizer;

constexpr size_t kTokensShown = 16;

// "<s> (1)", "none".
std::string describe(std::optional<uint32_t> id, const std::vector<tokenizer::SpecialToken>& special) {
  if (!id) return "none";
  for (const tokenizer::SpecialToken& token : special)
    if (token.id == *id) return fmt::format("{} ({})", token.text, *id);
  return fmt::format("({})", *id);
}

void print_text(const Tokenizer& t, bool all) {
  const std::vector<tokenizer::SpecialToken> special = t.special_tokens();
  const size_t shown = all ? special.size() : std::min(special.size(), kTokensShown);
  std::vector<std::string> names;
  for (size_t i = 0; i < shown; ++i) names.push_back(describe(special[i].id, special));
  if (shown < special.size()) names.push_back(fmt::format("and {} more (--all lists them)", special.size() - shown));
  fmt::print("{}", format_rows({{"kind", t.kind()},
                                {"vocabulary", fmt::format("{} ids", t.vocab_size())},
                                {"BOS", describe(t.bos(), special) +
                                            (t.adds_bos() ? ", which its template puts before a text" : "")},
                                {"EOS", describe(t.eos(), special)},
                                {"special tokens", names.empty() ? "none" : join(names)},
                                {"hash", t.content_hash()}}));
}

void print_json(const Tokenizer& t) {
  const auto id = [](std::optional<uint32_t> value) { return value ? Json(*value) : Json(); };
  Json json = {{"kind", t.kind()},
               {"vocab_size", t.vocab_size()},
               {"bos", id(t.bos())},
               {"eos", id(t.eos())},
               {"adds_bos", t.adds_bos()},
               {"hash", t.content_hash()},
               {"special_tokens", Json::array()}};
  for (const tokenizer::SpecialToken& token : t.special_tokens())
    json["special_tokens"].push_back({{"text", token.text}, {"id", token.id}});
  fmt::print("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace));
}

}  // namespace

int tokenizer_info(CommandLine& line) {
  TokenizerOptions options;
  bool json = false, all = false;
  options.declare(line);
  line.flag("--all", &all, "list every special token");
  line.flag("--json", &json, "one JSON object instead of text");
  if (!line.parse()) return 0;
  const auto tokenizer = options.open_tokenizer();
  json ? print_json(*tokenizer) : print_text(*tokenizer, all);
  return 0;
}

}  // namespace hearth::commands
