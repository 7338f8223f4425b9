// SPDX-License-Identifier: Apache-2.0
// The processor cores that a process may use.
#pragma once

#include <cstdint>
#include <string>

namespace hearth::machine {

// The cores that this process may use: fewer than the machine's under a batch system or taskset.
int64_t available_cores();

// The same as text, such as "0,1,2,3": equal for processes that share their cores.
std::string core_list();

}  // namespace hearth::machine
