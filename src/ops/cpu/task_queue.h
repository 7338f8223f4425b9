// SPDX-License-Identifier: Apache-2.0
// Tasks of unequal size on ATen's pool. Only for the .cpp files of ops/.
#pragma once

#include <ATen/Parallel.h>

#include <atomic>
#include <cstdint>

namespace hearth::ops {

// body(task) for each of [0, num_tasks), begun in order. A free thread takes the next task, so a thread on a busy core
// does fewer tasks. A task's result must not depend on its thread.
template <class Body>
void run_tasks(int64_t num_tasks, const Body& body) {
  std::atomic<int64_t> next = 0;
  at::parallel_for(0, std::min<int64_t>(num_tasks, at::get_num_threads()), 1, [&](int64_t, int64_t) {
    for (int64_t task = next++; task < num_tasks; task = next++) body(task);
  });
}

}  // namespace hearth::ops
