// A loop over indices on several threads.
#pragma once

#include <cstdint>
#include <functional>

namespace hearth {

// Calls body(i) for i in [0, count), each once, handed out in order. After a throw no further index is handed out; what
// the lowest index threw is thrown again when all threads are back.
void for_each_index(int64_t count, int64_t threads, const std::function<void(int64_t)>& body);

}  // namespace hearth
