// SPDX-License-Identifier: Apache-2.0
// Pointers of Git LFS: small files that stand in for large ones in a repository that was cloned without Git LFS.
#pragma once

#include <string>

#include "base/file.h"

namespace hearth::formats {

// Throws user_error if `file` is such a pointer.
void refuse_lfs_pointer(const File& file, const std::string& origin);

}  // namespace hearth::formats
