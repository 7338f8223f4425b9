// SPDX-License-Identifier: Apache-2.0
// Copies of objects on this host, for files that are mapped: a dataset's shards. Processes of a host share them.
//
// The folder is HEARTH_CACHE, else ~/.cache/hearth/objects (XDG_CACHE_HOME is obeyed). HEARTH_CACHE_LIMIT bounds it,
// such as "500GB"; without it, a tenth of the disk stays free. Copies that were not used for longest go first.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/file.h"

namespace hearth {

// The object's copy, open for reading: it can be mapped even if its name is removed meanwhile. An object that changed
// in the store is copied again. Throws user_error for an object above the limit.
File cached_copy(const Path& path);

// Forgets the copy: the next cached_copy() reads the object again.
void forget_copy(const Path& path);

// In bytes; of the variable, or of the disk.
int64_t cache_limit_bytes();

// A warning, with both sizes and what to set, if copies of `bytes` are more than the limit; nothing if they fit.
std::optional<std::string> cache_doubt(int64_t bytes);

}  // namespace hearth
