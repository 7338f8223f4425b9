// SPDX-License-Identifier: Apache-2.0
// Paths from a user: single paths, shell patterns and lists.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/file.h"

namespace hearth::data {

struct GivenPaths {
  std::vector<Path> paths;
  // The last part of the pattern, for paths that only a pattern names. The files among them are searched, not named.
  std::map<std::string, std::string> patterns;
};

// A path with *, ? or [ that does not exist is a pattern. Its matches take its place, sorted. A wildcard never stands
// for "." or "..". Throws user_error for a pattern without a match. The folder of an hf: name takes its place;
// find_fetched throws if it was not fetched.
GivenPaths expand_patterns(const std::vector<Path>& paths);

// Reads one path per line, relative to the list's folder. Skips a byte order mark, blank lines and lines that start
// with #.
std::vector<Path> read_source_list(const Path& list);

}  // namespace hearth::data
