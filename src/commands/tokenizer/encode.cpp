#include <fmt/core.h>
#include <fmt/format.h>

#include "base/log.h"
#include "base/quantity.h"
#include "commands/commands.h"
#include "commands/tokenizer/options.h"

namespace hearth::commands {

int tokenizer_encode(CommandLine& line) {
  TokenizerOptions options;
  DocumentEnds around;
  bool parse_special = false;
  std::vector<Path> files;
  options.declare(line);
  around.declare(line);
  line.flag("--parse-special", &parse_special,
            "read special tokens that the text spells as these tokens, as Hugging Face does; not given: they are text");
  line.positional("FILE", &files, "each a document, one line of ids; none: standard input").optional();
  if (!line.parse()) return 0;
  const auto tokenizer = options.open_tokenizer();
  const tokenizer::DocumentTokens ends = around.resolve(*tokenizer);
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
