// Threads that read units and write groups. A unit is read in order by one thread; the groups it finds are written by
// that thread or by others, so that one large file keeps all threads busy.
#pragma once

#include <cstdint>
#include <functional>

#include "data/build/group.h"

namespace hearth::data {

// Calls read(unit, emit) once for each unit in [first, end), handed out in order; `read` hands groups over by
// emit(group). Calls write(group) once for each. At most 2 * threads groups exist at a time. When something throws, no
// further unit or group is started, and what the lowest unit threw is thrown again when all threads are back.
void run_units(size_t first, size_t end, int64_t threads,
               const std::function<void(size_t unit, const std::function<void(Group)>& emit)>& read,
               const std::function<void(Group)>& write);

}  // namespace hearth::data
