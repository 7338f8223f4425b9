// SPDX-License-Identifier: Apache-2.0
#include "base/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <limits>
#include <mutex>
#include <thread>
#include <vector>

namespace hearth {

void for_each_index(int64_t count, int64_t threads, const std::function<void(int64_t)>& body) {
  std::atomic<int64_t> next{0};
  std::mutex mutex;
  int64_t failed_index = std::numeric_limits<int64_t>::max();
  std::exception_ptr failure;
  const auto work = [&] {
    for (int64_t i; (i = next++) < count;) {
      try {
        body(i);
      } catch (...) {
        next = count;
        const std::lock_guard lock(mutex);
        if (i < failed_index) {
          failed_index = i;
          failure = std::current_exception();
        }
      }
    }
  };
  std::vector<std::thread> others;
  for (int64_t i = 1; i < std::min(threads, count); ++i) others.emplace_back(work);
  work();
  for (std::thread& thread : others) thread.join();
  if (failure != nullptr) std::rethrow_exception(failure);
}

}  // namespace hearth
