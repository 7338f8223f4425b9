// SPDX-License-Identifier: Apache-2.0
// `hearth tokenizer encode`: texts as ids.
#include "base/log.h"
#include "commands/commands.h"
#include "commands/shared_options.h"
#include "commands/tokenizer/given_texts.h"

namespace hearth::commands {
namespace {

// The ids around each document, if they are wanted. Throws user_error if the tokenizer has no such token.
tokenizer::DocumentTokens ends_of(const tokenizer::Tokenizer& tokenizer, const std::string& bos,
                                  const std::string& eos) {
  const auto check = [](std::optional<uint32_t> id, const char* name, const char* option) {
    if (id) return id;
    throw user_error(fmt::format("the tokenizer has no {} token", name),
                     "neither its template nor its special tokens define it",
                     fmt::format("name it with {}-token TEXT, or give {} none", option, option));
  };
  tokenizer::DocumentTokens ends;
  if (bos.empty() ? tokenizer.adds_bos() : bos == "document") ends.bos = check(tokenizer.bos(), "BOS", "--bos");
  if (eos != "none") ends.eos = check(tokenizer.eos(), "EOS", "--eos");
  return ends;
}

}  // namespace

int tokenizer_encode(CommandLine& line) {
  TokenizerOptions options;
  std::string bos, eos;
  bool parse_special = false;
  std::vector<Path> files;
  options.declare(line);
  declare_ends(line, bos, eos);
  line.flag("--parse-special", &parse_special,
            "read special tokens that the text spells as these tokens, as Hugging Face does; not given: they are text");
  line.positional("FILE", &files, "each a document, one line of ids; none: standard input").optional();
  if (!line.parse()) return 0;
  const auto tokenizer = options.open_tokenizer();
  const tokenizer::DocumentTokens ends = ends_of(*tokenizer, bos, eos);
  const auto encoder =
      tokenizer->encoder(parse_special ? tokenizer::SpecialText::kParse : tokenizer::SpecialText::kPlain);
  std::vector<uint32_t> ids;
  for (const std::string& text : read_texts(files)) {
    ids.clear();
    if (ends.bos) ids.push_back(*ends.bos);
    encoder->encode(text, ids);
    if (ends.eos) ids.push_back(*ends.eos);
    fmt::memory_buffer out;
    for (size_t i = 0; i < ids.size(); ++i) fmt::format_to(std::back_inserter(out), "{}{}", i > 0 ? " " : "", ids[i]);
    out.push_back('\n');
    std::fwrite(out.data(), 1, out.size(), stdout);
  }
  std::fflush(stdout);
  const tokenizer::EncodeCounts& counts = encoder->counts();
  if (counts.special_text_seen > 0)
    log_info("the text spells special tokens {}; they {}", counted(counts.special_text_seen, "time"),
             parse_special ? "became these tokens" : "stay text (--parse-special reads them)");
  if (counts.invalid_bytes_replaced > 0)
    log_info("{} not in UTF-8 became U+FFFD", counted(counts.invalid_bytes_replaced, "byte"));
  return 0;
}

}  // namespace hearth::commands
