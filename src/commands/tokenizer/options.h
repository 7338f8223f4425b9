// Shared options of the tokenizer commands.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "commands/command_line.h"
#include "tokenizer/tokenizer.h"

namespace hearth::commands {

struct TokenizerOptions {
  std::string tokenizer;
  tokenizer::OpenOptions open;

  void declare(CommandLine& line);  // --tokenizer, --bos-token, --eos-token, --no-meta-cuts
  std::unique_ptr<tokenizer::Tokenizer> open_tokenizer() const { return tokenizer::open_tokenizer(tokenizer, open); }
};

void declare_meta_cuts(CommandLine& line, bool* without);  // --no-meta-cuts

// The tokens around each document.
struct DocumentEnds {
  std::string bos, eos;  // "none", "document"; empty: bos as in the template, eos always

  void declare(CommandLine& line);  // --bos, --eos
  // The two ids, if they are wanted. Throws user_error if the tokenizer has no such token.
  tokenizer::DocumentTokens resolve(const tokenizer::Tokenizer& tokenizer) const;
};

// The files' contents without their byte order marks, as `data build` reads them; without files, standard input's.
std::vector<std::string> read_texts(const std::vector<Path>& files);

}  // namespace hearth::commands
