// SPDX-License-Identifier: Apache-2.0
// The items that each of many ranks would save, without their bytes.
#pragma once

#include <cstdint>
#include <string>

#include "base/file.h"

namespace hearth::bench {

// Makes the file of `rank` in the folder, with the length that it would have if `ranks` ranks shared Llama 3 8B and
// AdamW's moments (ZeRO-3, float32), and no bytes on the disk. Returns the list of its items for checkpoint::commit().
std::string write_empty_items(const Path& folder, int64_t rank, int64_t ranks);

}  // namespace hearth::bench
