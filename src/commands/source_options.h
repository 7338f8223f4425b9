// The options of the commands that read a corpus. With the same options they read the same documents.
#pragma once

#include <string>
#include <vector>

#include "commands/command_line.h"
#include "data/shard/manifest.h"
#include "data/source/path_list.h"

namespace hearth::commands {

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
  // After parsing. Each throws user_error for invalid options.
  data::GivenPaths all_paths() const;  // with patterns and the list resolved; at least one
  data::ReadRules read_rules() const;
  data::KindRules kind_rules() const { return {!read.text_keys.empty(), as_text}; }
  data::OnError error_policy() const { return data::parse_on_error(on_error); }
};

}  // namespace hearth::commands
