// SPDX-License-Identifier: Apache-2.0
// Options that several commands have.
#pragma once

#include "commands/command_line.h"
#include "data/shard/manifest.h"
#include "data/source/path_list.h"
#include "tokenizer/tokenizer.h"

namespace hearth::commands {

// The options of all commands that read a corpus. Commands with the same options read the same documents.
struct SourceOptions {
  std::vector<Path> paths;
  Path source_list;
  std::vector<std::string> include, exclude;
  data::ReadRules read;
  bool as_text = false;
  std::string text_join = "\\n\\n", on_error = "stop", source_dataset;

  // PATH... --source-list --include --exclude --format --as-text --dialect --document-bytes --text-key --text-join
  // --join-first --max-record-bytes --on-error --source-dataset. Without --text-key `read` has no key: see
  // data::default_text_key.
  void declare(CommandLine& line);
  // After parsing: copies these options to the options of a build, or of a search for files. Throws user_error for
  // invalid ones.
  template <class Options>
  void apply(Options& options, data::BuildRules& rules) const {
    data::GivenPaths given = all_paths();
    options.paths = std::move(given.paths);
    options.patterns = std::move(given.patterns);
    options.include = include;
    options.exclude = exclude;
    options.kinds = {!read.text_keys.empty(), as_text};
    rules.read = read_rules();
    rules.on_error = data::parse_on_error(on_error);
    rules.source_dataset = source_dataset;
  }

 private:
  data::GivenPaths all_paths() const;  // with patterns and the list resolved; at least one
  data::ReadRules read_rules() const;
};

// For commands that open a tokenizer.
struct TokenizerOptions {
  std::string tokenizer;
  tokenizer::OpenOptions open;

  void declare(CommandLine& line);  // --tokenizer, and the special tokens
  std::unique_ptr<tokenizer::Tokenizer> open_tokenizer() const { return tokenizer::open_tokenizer(tokenizer, open); }
};

// --bos-token, --eos-token, --no-meta-cuts: the members of tokenizer::OpenOptions.
void declare_special_tokens(CommandLine& line, std::string& bos, std::string& eos, bool& without_meta_cuts);

// --bos, --eos: the tokens around each document, "none" or "document". Empty: BOS as in the template, EOS always.
void declare_ends(CommandLine& line, std::string& bos, std::string& eos);

}  // namespace hearth::commands
