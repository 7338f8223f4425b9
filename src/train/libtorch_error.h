// SPDX-License-Identifier: Apache-2.0
// Converts LibTorch's exceptions to Hearth's errors.
#pragma once

#include <c10/util/Exception.h>

#include "base/error.h"

namespace hearth::train {

// The C++ stack is left out. Memory exhaustion is kHardware and says what to make smaller. A GPU failure is kHardware,
// too. Everything else is kBug, since no unchecked user input may reach LibTorch.
Error from_libtorch(const c10::Error& error);

}  // namespace hearth::train
