// SPDX-License-Identifier: Apache-2.0
// Files that a command writes at its end.
#pragma once

#include "base/file.h"

namespace hearth::infer {

// Call this before the work: makes the folder of `file`, which is the value of `option`. Throws if the file cannot be
// written. Does nothing for an empty path.
void prepare_output(const char* option, const Path& file);

}  // namespace hearth::infer
