// LibTorch's exceptions as errors of ours.
#pragma once

#include <c10/util/Exception.h>

#include "base/error.h"

namespace hearth::train {

// Without the C++ stack. Memory that is not to be had is kHardware and says what to make smaller, and so is a GPU that
// fails; everything else is a bug of ours (kBug), since no user input may reach LibTorch unchecked.
Error from_libtorch(const c10::Error& error);

}  // namespace hearth::train
