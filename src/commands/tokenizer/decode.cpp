// SPDX-License-Identifier: Apache-2.0
// `hearth tokenizer decode`: ids as texts.
#include <charconv>

#include "commands/commands.h"
#include "commands/shared_options.h"
#include "commands/tokenizer/given_texts.h"

namespace hearth::commands {
namespace {

std::vector<uint32_t> parse_ids(std::string_view line) {
  std::vector<uint32_t> ids;
  constexpr std::string_view kSpace = " \t\r";
  for (size_t at = line.find_first_not_of(kSpace); at != std::string_view::npos;) {
    const size_t end = std::min(line.find_first_of(kSpace, at), line.size());
    const std::string_view word = line.substr(at, end - at);
    uint32_t id = 0;
    const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), id);
    if (error != std::errc() || stop != word.data() + word.size())
      throw user_error(fmt::format("\"{}\" is not a token id", word.substr(0, 40)), "",
                       "give ids as `hearth tokenizer encode` prints them: numbers with spaces between them");
    ids.push_back(id);
    at = line.find_first_not_of(kSpace, end);
  }
  return ids;
}

}  // namespace

int tokenizer_decode(CommandLine& line) {
  TokenizerOptions options;
  std::vector<Path> files;
  options.declare(line);
  line.positional("FILE", &files, "ids, each line a document; none: standard input").optional();
  if (!line.parse()) return 0;
  const auto tokenizer = options.open_tokenizer();
  for (const std::string& text : read_texts(files)) {
    for (const std::string& row : split_lines(text)) {
      const std::string decoded = tokenizer->decode_all(parse_ids(row));
      std::fwrite(decoded.data(), 1, decoded.size(), stdout);
    }
  }
  std::fflush(stdout);
  return 0;
}

}  // namespace hearth::commands
