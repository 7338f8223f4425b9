// Threads that read units and write groups. One thread reads a unit in order. Its groups are written by that thread or
// by others, so one large file keeps all threads busy.
#pragma once

#include <cstdint>
#include <functional>

#include "data/build/group.h"

namespace hearth::data {

// Calls read(unit, emit) once for each unit in [first, end), started in order; `read` passes its groups to emit(group).
// Calls write(group) once for each group. At most 2 * threads groups exist at a time. After an exception no further
// unit or group is started. The exception of the lowest unit is thrown again when all threads have returned.
void run_units(size_t first, size_t end, int64_t threads,
               const std::function<void(size_t unit, const std::function<void(Group)>& emit)>& read,
               const std::function<void(Group)>& write);

}  // namespace hearth::data
