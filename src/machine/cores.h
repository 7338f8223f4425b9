// The processor cores that a process may use.
#pragma once

#include <cstdint>

namespace hearth::machine {

// The cores that this process may use: fewer than the machine's under a batch system or taskset.
int64_t available_cores();

}  // namespace hearth::machine
