// The processor cores that a process may use.
#pragma once

#include <cstdint>

namespace hearth::machine {

// The cores this process may run on: less than the machine has under a batch system or taskset.
int64_t available_cores();

}  // namespace hearth::machine
