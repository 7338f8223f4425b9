// The paths a user names: as they stand, by shell patterns, and in lists.
#pragma once

#include <vector>

#include "base/file.h"

namespace hearth::data {

// Paths with *, ? or [ that are not there themselves are patterns; sorted where they stand. Throws user_error for a
// pattern that nothing matches.
std::vector<Path> expand_patterns(const std::vector<Path>& paths);

// One path a line, relative to the list's folder; blank lines and lines that start with # are passed over.
std::vector<Path> read_source_list(const Path& list);

}  // namespace hearth::data
