#include "cluster/goodput.h"

#include <algorithm>
#include <ctime>

namespace hearth::cluster {

double seconds_of_time(const std::string& text) {
  std::tm parts{};
  const char* end = ::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return end != nullptr && *end == '\0' ? static_cast<double>(::timegm(&parts)) : -1;
}

Goodput goodput_of(const std::vector<StartEvent>& events, std::span<const metrics::Record> records, bool running,
                   double now_s) {
  Goodput sum;
  double last_step_s = 0;
  for (const metrics::Record& record : records) {
    sum.useful_s += record.step_s;
    last_step_s = std::max(last_step_s, record.time);
  }
  double since_s = -1;  // the start of what is not counted yet; -1: all is counted
  double again_s = 0;   // when the ranks ended that start again in their allocation; 0: they run
  const auto close = [&](double until_s) {
    if (since_s >= 0) sum.allocated_s += std::max(0.0, until_s - since_s);
    since_s = -1;
    again_s = 0;
  };
  for (const StartEvent& event : events) {
    const double at_s = seconds_of_time(event.time);
    if (at_s < 0) continue;
    if (event.name == "start") {
      close(at_s);
      since_s = at_s;
      ++sum.starts;
    } else if (event.name == "end" && event.next == "again") {
      again_s = at_s;
    } else if (event.name == "end") {
      close(at_s);
    } else if (event.name == "submit") {
      close(again_s > 0 ? again_s : std::min(at_s, last_step_s));
    }
  }
  close(running ? now_s : again_s > 0 ? again_s : last_step_s);
  return sum;
}

}  // namespace hearth::cluster
