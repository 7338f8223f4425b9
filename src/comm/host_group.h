// SPDX-License-Identifier: Apache-2.0
// The ranks of one host as a Group: data go through the memory that they share (comm/host_memory.h).
#pragma once

#include <functional>
#include <memory>

#include "base/error.h"
#include "comm/group.h"
#include "comm/host_memory.h"

namespace hearth::comm {

// Borrows both. A rank that waits longer than `limit` for the others throws an Error (comm/host_memory.h). It calls
// `hang` before, if given.
std::unique_ptr<Group> host_group(HostMemory& memory, Control& control, Limit limit,
                                  std::function<void(const Error&)> hang = {});

}  // namespace hearth::comm
