// Tasks of unequal size on ATen's pool. Only for the .cpp files of ops/.
#pragma once

#include <ATen/Parallel.h>

#include <atomic>
#include <cstdint>

namespace hearth::ops {

// body(task) for each of [0, num_tasks), begun in order. Threads take the next task as they get free, so that a thread
// whose core is busy elsewhere does less; who does a task must not change its result.
template <class Body>
void run_tasks(int64_t num_tasks, const Body& body) {
  std::atomic<int64_t> next = 0;
  at::parallel_for(0, std::min<int64_t>(num_tasks, at::get_num_threads()), 1, [&](int64_t, int64_t) {
    for (int64_t task = next++; task < num_tasks; task = next++) body(task);
  });
}

}  // namespace hearth::ops
