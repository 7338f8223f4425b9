#include "commands/tokenizer/options.h"

#include <unistd.h>

#include <cerrno>

#include "base/error.h"
#include "data/formats/stream_buffer.h"

namespace hearth::commands {
namespace {

std::string read_standard_input() {
  std::string content;
  char buffer[1 << 16];
  while (true) {
    const ssize_t got = ::read(STDIN_FILENO, buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw system_error("cannot read standard input", errno);
    if (got == 0) return content;
    content.append(buffer, static_cast<size_t>(got));
  }
}

}  // namespace

void TokenizerOptions::declare(CommandLine& line) {
  line.option("--tokenizer", "FILE", &tokenizer,
              "\"bytes\" (256 bytes, BOS and EOS), a tokenizer.json or .model, or a folder that holds one")
      .required();
  line.option("--bos-token", "TEXT", &open.bos_token, "the special token BOS, if the tokenizer does not define it");
  line.option("--eos-token", "TEXT", &open.eos_token, "the special token EOS, if the tokenizer does not define it");
  declare_meta_cuts(line, &open.without_meta_cuts);
}

void declare_meta_cuts(CommandLine& line, bool* without) {
  line.flag(
      "--no-meta-cuts", without,
      "with Llama-3's tokenizer.model: do not cut texts of over 400,000 characters and runs of over 25,000 as Meta's "
      "code does; the ids are then those of tokenizer.json");
}

void DocumentEnds::declare(CommandLine& line) {
  line.option("--bos", "WHERE", &bos, "before each document, or none; not given: as the tokenizer's template says")
      .choices({"none", "document"});
  line.option("--eos", "WHERE", &eos, "after each document, or none; not given: after each document")
      .choices({"none", "document"});
}

tokenizer::DocumentTokens DocumentEnds::resolve(const tokenizer::Tokenizer& tokenizer) const {
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

std::vector<std::string> read_texts(const std::vector<Path>& files) {
  if (files.empty()) return {read_standard_input()};
  std::vector<std::string> texts;
  for (const Path& file : files) {
    if (!path_exists(file))
      throw user_error(fmt::format("there is no file {}", file.string()), {},
                       "give files, or a text on standard input: echo \"a text\" | hearth tokenizer ...");
    texts.push_back(read_stream(file));
    if (texts.back().starts_with(data::kByteOrderMark)) texts.back().erase(0, data::kByteOrderMark.size());
  }
  return texts;
}

}  // namespace hearth::commands
