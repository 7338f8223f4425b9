// SPDX-License-Identifier: Apache-2.0
// A loop over indices on several threads.
#pragma once

#include <cstdint>
#include <functional>

namespace hearth {

// Calls body(i) once for each i in [0, count), handed out in order. After an exception no further index is handed out.
// When all threads have ended, the exception of the lowest failed index is thrown again.
void for_each_index(int64_t count, int64_t threads, const std::function<void(int64_t)>& body);

}  // namespace hearth
