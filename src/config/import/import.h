// SPDX-License-Identifier: Apache-2.0
// `hearth config import`: a run file of another trainer as one of ours.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "config/import/draft.h"

namespace hearth::config {

// The names of the kinds of files, for --from.
std::vector<std::string> dialect_names();

struct Imported {
  std::string dialect;  // "GPT-NeoX"
  std::string text;     // our run file, in TOML, with comments
  int64_t num_keys = 0, num_foreign_keys = 0;
};

// Reads `files` together as one run. `from`: a name of dialect_names(), or empty to find the kind from the keys.
// `command`: the first comment of the result says that this command made it. Throws all problems at once, each with
// file:line: syntax, keys that are unknown, wrong or refused, and rules between our keys. The datasets and weights that
// the result names need not exist.
Imported import_run(const std::vector<Path>& files, std::string_view from, const ImportOptions& options,
                    std::string_view command);

}  // namespace hearth::config
