// SPDX-License-Identifier: Apache-2.0
// The processor cores that a process may use.
#pragma once

#include <cstdint>
#include <string>

namespace hearth::machine {

// The number of cores that this process may use. A batch system or taskset may allow fewer than the machine has.
int64_t available_cores();

// These cores as text, such as "0,1,2,3". Two processes with the same text share their cores.
std::string core_list();

}  // namespace hearth::machine
