// Paths from a user: single paths, shell patterns and lists.
#pragma once

#include <vector>

#include "base/file.h"

namespace hearth::data {

// A path with *, ? or [ that does not exist is a pattern. Its matches take its place, sorted. Throws user_error for a
// pattern without a match. The files of an hf: name take its place; fetched_data throws if they were not fetched.
std::vector<Path> expand_patterns(const std::vector<Path>& paths);

// Reads one path per line, relative to the list's folder. Skips blank lines and lines that start with #.
std::vector<Path> read_source_list(const Path& list);

}  // namespace hearth::data
