// SPDX-License-Identifier: Apache-2.0
#include "metrics/throughput.h"

#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <fstream>

namespace hearth::metrics {

int64_t peak_memory_bytes() {
  struct rusage usage {};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<int64_t>(usage.ru_maxrss) * 1024;  // Linux reports kilobytes
}

int64_t resident_memory_bytes() {
  std::ifstream statm("/proc/self/statm");
  int64_t all_pages = 0, resident_pages = 0;
  statm >> all_pages >> resident_pages;
  return resident_pages * ::sysconf(_SC_PAGESIZE);
}

double monotonic_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double wall_seconds() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<double>(std::chrono::duration_cast<std::chrono::milliseconds>(now).count()) / 1000;
}

}  // namespace hearth::metrics
