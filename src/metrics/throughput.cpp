#include "metrics/throughput.h"

#include <sys/resource.h>

#include <chrono>

namespace hearth::metrics {

int64_t peak_memory_bytes() {
  struct rusage usage {};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<int64_t>(usage.ru_maxrss) * 1024;  // Linux reports kilobytes
}

double monotonic_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace hearth::metrics
