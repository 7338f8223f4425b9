// SPDX-License-Identifier: Apache-2.0
#include "cluster/goodput.h"

#include <algorithm>
#include <ctime>
#include <iterator>

namespace hearth::cluster {

double seconds_of_time(const std::string& text) {
  std::tm parts{};
  const char* end = ::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return end != nullptr && *end == '\0' ? static_cast<double>(::timegm(&parts)) : -1;
}

namespace {

// When the scheduler had given nodes to the run, in seconds since 1970.
struct Interval {
  double begin_s, end_s;
  double useful_s = 0;  // of the steps in it
};

std::vector<Interval> allocations_of(const std::vector<StartEvent>& events, double last_step_s, bool running,
                                     double now_s) {
  std::vector<Interval> all;
  double since_s = -1;  // the start of what is not counted yet; -1: all is counted
  double again_s = 0;   // when the ranks ended that start again in their allocation; 0: they run
  const auto close = [&](double until_s) {
    if (since_s >= 0 && until_s > since_s) all.push_back({since_s, until_s});
    since_s = -1;
    again_s = 0;
  };
  for (const StartEvent& event : events) {
    const double at_s = seconds_of_time(event.time);
    if (at_s < 0) continue;
    if (event.name == "start") {
      close(at_s);
      since_s = at_s;
    } else if (event.name == "end" && event.next == "again") {
      again_s = at_s;
    } else if (event.name == "end") {
      close(at_s);
    } else if (event.name == "submit") {
      close(again_s > 0 ? again_s : std::min(at_s, last_step_s));
    }
  }
  close(running ? now_s : again_s > 0 ? again_s : last_step_s);
  return all;
}

}  // namespace

Goodput goodput_of(const std::vector<StartEvent>& events, std::span<const metrics::StepRecord> records, bool running,
                   double now_s) {
  Goodput sum;
  double last_step_s = 0;
  for (const metrics::StepRecord& record : records) last_step_s = std::max(last_step_s, record.time);
  for (const StartEvent& event : events) sum.starts += event.name == "start" ? 1 : 0;
  std::vector<Interval> allocations = allocations_of(events, last_step_s, running, now_s);
  std::sort(allocations.begin(), allocations.end(), [](auto& a, auto& b) { return a.begin_s < b.begin_s; });
  // Steps of a training that was started by hand are not of a job. Events have whole seconds.
  for (const metrics::StepRecord& record : records) {
    const auto after = std::upper_bound(allocations.begin(), allocations.end(), record.time,
                                        [](double time, const Interval& i) { return time < i.begin_s; });
    if (after == allocations.begin() || record.time > std::prev(after)->end_s + 1) continue;
    std::prev(after)->useful_s += record.step_s;
  }
  for (const Interval& allocation : allocations) {
    const double length_s = allocation.end_s - allocation.begin_s;
    sum.allocated_s += length_s;
    sum.useful_s += std::min(allocation.useful_s, length_s);
  }
  return sum;
}

}  // namespace hearth::cluster
