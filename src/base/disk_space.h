// SPDX-License-Identifier: Apache-2.0
// Checks that a disk has room, so that hours of work do not end at a full disk.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/file.h"

namespace hearth {

// The folder for files that live as long as a command: TMPDIR, or /tmp. Throws user_error if it is not a folder.
Path temporary_directory();

// Throws an Error with ExitCode::kHardware unless the disk of `folder`, or of its nearest parent that exists, has
// `bytes` free. `what` names the part of the work that needs them, such as "the download"; `fix` is the error's fix.
void require_disk_space(const Path& folder, int64_t bytes, std::string_view what, const std::string& fix);

}  // namespace hearth
