// SPDX-License-Identifier: Apache-2.0
// Searches in folders, for tests.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/text.h"
#include "data/source/discover.h"
#include "data/source/path_list.h"

namespace hearth::data {

// The README.md of a dataset of the Hub.
inline constexpr const char* kCard = "---\nlicense: mit\ntask_categories:\n- text-generation\n---\n# A dataset\n";

inline Discovery search(const Path& folder, bool has_keys = false, std::vector<std::string> include = {},
                        std::vector<std::string> exclude = {}) {
  DiscoverOptions options;
  options.paths = {folder};
  options.kinds.has_keys = has_keys;
  options.include = std::move(include);
  options.exclude = std::move(exclude);
  HashProgress progress;
  return discover(options, progress);
}

// The names of the files that are read, relative to the folder.
inline std::string names_of(const Discovery& found, const Path& folder) {
  std::vector<std::string> names;
  for (const SourceFile& source : found.sources) names.push_back(Path(source.path).lexically_relative(folder).string());
  return join(names, " ");
}

// As the commands search what a user names.
inline Discovery search_patterns(const std::vector<Path>& paths, std::vector<std::string> exclude = {}) {
  GivenPaths given = expand_patterns(paths);
  DiscoverOptions options;
  options.paths = std::move(given.paths);
  options.patterns = std::move(given.patterns);
  options.exclude = std::move(exclude);
  HashProgress progress;
  return discover(options, progress);
}

}  // namespace hearth::data
