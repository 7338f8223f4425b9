// SPDX-License-Identifier: Apache-2.0
// Copies of objects on this host, for files that must be mapped: a dataset's shards. Processes of a host share them.
// The first use of an object downloads all of it.
//
// The folder is HEARTH_CACHE, else ~/.cache/hearth/objects (XDG_CACHE_HOME is obeyed). HEARTH_CACHE_LIMIT bounds it,
// such as "500GB"; without it, a tenth of the disk stays free. The least recently used copies are removed first.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/file.h"

namespace hearth {

// The object's copy, open for reading: it can be mapped even if its name is removed meanwhile. An object that changed
// in the store is copied again. Throws user_error for an object above the limit.
File cached_copy(const Path& path);

// Removes the copy: the next cached_copy() downloads the object again.
void forget_copy(const Path& path);

// The most bytes that all copies may take: HEARTH_CACHE_LIMIT, or what the disk allows.
int64_t cache_limit_bytes();

// A warning, with both sizes and the variable to set, if copies of `bytes` in all exceed the limit. Empty if they fit:
// otherwise each shard would be downloaded again and again.
std::optional<std::string> cache_doubt(int64_t bytes);

}  // namespace hearth
