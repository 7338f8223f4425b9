#include "metrics/throughput.h"

#include <sys/resource.h>

#include <chrono>

#include "base/units.h"

namespace hearth::metrics {

std::string format_flops(double flops) {
  // As format_count, with the prefixes of physics: nobody says BFLOP.
  std::string text = format_count(flops);
  if (text.ends_with('B')) text.back() = 'G';
  return text.find(' ') == std::string::npos ? text + " FLOP" : text + "FLOP";
}

int64_t peak_memory_bytes() {
  struct rusage usage {};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<int64_t>(usage.ru_maxrss) * 1024;  // Linux counts kilobytes
}

double monotonic_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace hearth::metrics
