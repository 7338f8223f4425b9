// SPDX-License-Identifier: Apache-2.0
#include "report/trace_costs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "base/quantity.h"

namespace hearth::report {
namespace {

using Interval = std::pair<double, double>;
using Json = nlohmann::ordered_json;
using TimesByName = std::map<std::string, TraceTime>;

enum class Role { kComputation, kCommunication, kDataWait, kStep, kOther, kNothing };

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

bool is_of_device(const TraceEvent& event) {
  return event.category == "kernel" || event.category.starts_with("gpu_mem");
}

bool is_step(const TraceEvent& event) { return event.category == "step" || event.name.starts_with("ProfilerStep#"); }

Role role_on_device(const TraceEvent& event) {
  if (!is_of_device(event)) return is_step(event) ? Role::kStep : Role::kNothing;
  return contains(event.name, "nccl") || contains(event.name, "rccl") ? Role::kCommunication : Role::kComputation;
}

Role role_on_host(const TraceEvent& event) {
  const std::string_view category = event.category, name = event.name;
  if (is_step(event)) return Role::kStep;
  if (category == "op") return Role::kComputation;
  if (category == "data" || name.starts_with("enumerate(DataLoader)#")) return Role::kDataWait;
  const bool by_name = name.starts_with("gloo:") || name.starts_with("nccl:") || name.starts_with("mpi:");
  if (category == "collective" || by_name) return Role::kCommunication;
  if (category == "cpu_op" && !name.starts_with("c10d::")) return Role::kComputation;
  if (category == "Trace") return Role::kNothing;  // the whole of PyTorch's
  return Role::kOther;
}

// "void ns::(anonymous namespace)::add<float, 4>(float*, long)" is "add<float, 4>".
std::string kernel_name(std::string_view name) {
  constexpr std::string_view kVoid = "void ", kAnonymous = "(anonymous namespace)";
  if (name.starts_with(kVoid)) name.remove_prefix(kVoid.size());
  size_t begin = 0;
  int depth = 0;  // of < and (
  for (size_t i = 0; i < name.size(); ++i) {
    if (name.substr(i).starts_with(kAnonymous)) {
      i += kAnonymous.size() - 1;
    } else if (name[i] == '(' && depth == 0) {
      return std::string(name.substr(begin, i - begin));
    } else if (name[i] == '<' || name[i] == '(') {
      ++depth;
    } else if (name[i] == '>' || name[i] == ')') {
      --depth;
    } else if (name[i] == ':' && depth == 0) {
      begin = i + 1;
    }
  }
  return std::string(name.substr(begin));
}

// "forward, layer 3" and "ProfilerStep#7" are costs of the same name in every layer and step.
std::string cost_name(const TraceEvent& event) {
  std::string name = event.category == "kernel" ? kernel_name(event.name) : event.name;
  if (event.category != "layer" && !is_step(event)) return name;
  while (!name.empty() && std::isdigit(static_cast<unsigned char>(name.back())) != 0) name.pop_back();
  while (!name.empty() && (name.back() == ' ' || name.back() == '#')) name.pop_back();
  return name;
}

// As intervals that neither overlap nor touch, in order.
std::vector<Interval> merged(std::vector<Interval> intervals) {
  std::sort(intervals.begin(), intervals.end());
  std::vector<Interval> result;
  for (const Interval& next : intervals) {
    if (!result.empty() && next.first <= result.back().second)
      result.back().second = std::max(result.back().second, next.second);
    else
      result.push_back(next);
  }
  return result;
}

double length(const std::vector<Interval>& intervals) {
  double sum = 0;
  for (const auto& [begin, end] : intervals) sum += end - begin;
  return sum;
}

// The length of what two merged lists both have.
double overlap(const std::vector<Interval>& a, const std::vector<Interval>& b) {
  double sum = 0;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    sum += std::max(0.0, std::min(a[i].second, b[j].second) - std::max(a[i].first, b[j].first));
    a[i].second < b[j].second ? ++i : ++j;
  }
  return sum;
}

// By their begins, an outer one first.
void sort_nested(std::vector<const TraceEvent*>& events) {
  std::stable_sort(events.begin(), events.end(), [](const TraceEvent* a, const TraceEvent* b) {
    return a->begin_us != b->begin_us ? a->begin_us < b->begin_us : a->end_us > b->end_us;
  });
}

// Adds to the time of a name, which is returned.
TraceTime& add_time(TimesByName& times, const TraceTime& more) {
  TraceTime& time = times[more.name];
  time.name = more.name;
  time.calls += more.calls;
  time.us += more.us;
  return time;
}

// Adds the outermost phases of a thread's events, which are sorted.
void add_phases(const std::vector<const TraceEvent*>& events, TimesByName& phases) {
  double end_us = std::numeric_limits<double>::lowest();
  for (const TraceEvent* event : events) {
    if (event->category != "phase" || event->begin_us < end_us) continue;
    end_us = event->end_us;
    add_time(phases, {event->name, 1, event->end_us - event->begin_us});
  }
}

// Adds the self times of a thread's events, which are sorted.
void add_self_times(const std::vector<const TraceEvent*>& events, TimesByName& costs) {
  std::vector<std::pair<const TraceEvent*, TraceTime*>> around;
  for (const TraceEvent* event : events) {
    while (!around.empty() && around.back().first->end_us <= event->begin_us) around.pop_back();
    TraceTime& cost = add_time(costs, {cost_name(*event), 1, event->end_us - event->begin_us});
    // An event may end later than the one around it by the rounding of its numbers.
    if (!around.empty())
      around.back().second->us -= std::min(event->end_us, around.back().first->end_us) - event->begin_us;
    around.emplace_back(event, &cost);
  }
}

std::string share(double part, double whole) { return fmt::format("{:.1f} %", whole > 0 ? 100 * part / whole : 0); }

std::string duration(double us) {
  if (us < 1000) return fmt::format("{:.1f} us", us);
  if (us < 1e6) return fmt::format("{:.2f} ms", us / 1000);
  return fmt::format("{:.3f} s", us / 1e6);
}

// A name of a foreign file for a terminal: without control characters, and in at most `most` bytes of UTF-8.
std::string shown(std::string name, size_t most) {
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return c < 0x20 || c == 0x7F; }, '?');
  if (name.size() <= most) return name;
  size_t end = most - 3;
  while (end > 0 && (name[end] & 0xC0) == 0x80) --end;
  return name.substr(0, end) + "...";
}

// The longest first.
std::vector<TraceTime> sorted(const TimesByName& times) {
  std::vector<TraceTime> list;
  for (const auto& [name, time] : times) list.push_back(time);
  std::stable_sort(list.begin(), list.end(), [](const TraceTime& a, const TraceTime& b) { return a.us > b.us; });
  return list;
}

// A row for each of the `most` longest times, as means over `ranks`; `total_us` is a sum over them.
std::string format_times(const char* heading, const char* column, const TimesByName& of_names, size_t most,
                         double total_us, double ranks) {
  std::vector<TraceTime> times = sorted(of_names);
  times.resize(std::min(times.size(), most));
  size_t width = 44;  // names of kernels are longer
  for (const TraceTime& time : times) width = std::min<size_t>(64, std::max(width, time.name.size()));
  std::string text = fmt::format("{:{}}  {:>10}  {:>8}  {:>8}\n", heading, width, column, "share", "calls");
  for (const TraceTime& time : times)
    text += fmt::format("{:{}}  {:>10}  {:>8}  {:>8.6g}\n", shown(time.name, width), width, duration(time.us / ranks),
                        share(time.us, total_us), static_cast<double>(time.calls) / ranks);
  return text;
}

std::string format_ranks(const std::vector<TraceCosts>& ranks) {
  constexpr size_t kMostRows = 16;
  std::vector<const TraceCosts*> rows;
  for (const TraceCosts& rank : ranks) rows.push_back(&rank);
  std::string text = fmt::format("\n{:>6}  {:>10}  {:>11}  {:>13}  {:>19}  {:>12}\n", "rank", "time", "computation",
                                 "communication", "of it exposed", "data wait");
  if (rows.size() > kMostRows) {
    std::stable_sort(rows.begin(), rows.end(), [](auto* a, auto* b) { return a->computation_us > b->computation_us; });
    rows.resize(kMostRows);
  }
  for (const TraceCosts* r : rows)
    text += fmt::format("{:>6}  {:>10}  {:>11}  {:>13}  {:>10} {:>8}  {:>12}\n", r->rank, duration(r->total_us),
                        duration(r->computation_us), duration(r->communication_us), duration(r->exposed_us),
                        share(r->exposed_us, r->total_us), duration(r->data_wait_us));
  if (rows.size() < ranks.size())
    text += fmt::format("the {} ranks that compute longest, of {}\n", rows.size(), ranks.size());
  return text;
}

}  // namespace

TraceCosts trace_costs(const Trace& trace) {
  const bool on_device = std::any_of(trace.events.begin(), trace.events.end(), is_of_device);
  std::map<int64_t, std::vector<const TraceEvent*>> tracks;
  std::map<Role, std::vector<Interval>> intervals;
  std::vector<Interval> all;
  TraceCosts result;
  result.rank = trace.rank;
  result.ranks = trace.ranks;
  for (const TraceEvent& event : trace.events) {
    const Role role = on_device ? role_on_device(event) : role_on_host(event);
    if (role == Role::kNothing) continue;
    intervals[role].emplace_back(event.begin_us, event.end_us);
    if (role == Role::kStep) ++result.steps;
    all.emplace_back(event.begin_us, event.end_us);
    if (!on_device || role != Role::kStep) tracks[event.track].push_back(&event);
  }
  // A GPU's work ends after the step of the host that enqueued it.
  const std::vector<Interval>& whole = result.steps > 0 && !on_device ? intervals[Role::kStep] : all;
  const auto by_end = [](const Interval& a, const Interval& b) { return a.second < b.second; };
  if (!whole.empty())
    result.total_us = std::max_element(whole.begin(), whole.end(), by_end)->second -
                      std::min_element(whole.begin(), whole.end())->first;
  TimesByName costs, phases;
  for (auto& [track, events] : tracks) {
    sort_nested(events);
    add_self_times(events, costs);
    add_phases(events, phases);
  }
  result.costs = sorted(costs);
  result.phases = sorted(phases);
  const std::vector<Interval> computation = merged(intervals[Role::kComputation]),
                              communication = merged(intervals[Role::kCommunication]);
  result.computation_us = length(computation);
  result.communication_us = length(communication);
  result.exposed_us = result.communication_us - overlap(communication, computation);
  result.data_wait_us = length(merged(intervals[Role::kDataWait]));
  return result;
}

std::string format_trace_costs(const std::vector<TraceCosts>& ranks, int64_t largest) {
  TimesByName costs, phases;
  double total_us = 0;
  for (const TraceCosts& rank : ranks) {
    total_us += rank.total_us;
    for (const TraceTime& cost : rank.costs) add_time(costs, cost);
    for (const TraceTime& phase : rank.phases) add_time(phases, phase);
  }
  const auto count = static_cast<double>(ranks.size());
  std::string text =
      fmt::format("{}, {}, {}{}\n\n",
                  ranks.size() == 1 ? fmt::format("rank {}", ranks[0].rank) : counted(std::ssize(ranks), "rank"),
                  counted(ranks[0].steps, "step"), duration(total_us / count), ranks.size() == 1 ? "" : " in the mean");
  text += format_times(ranks.size() == 1 ? "largest costs" : "largest costs of a rank", "self time", costs,
                       static_cast<size_t>(largest), total_us, count);
  if (!phases.empty()) text += "\n" + format_times("phases", "time", phases, phases.size(), total_us, count);
  return text + format_ranks(ranks);
}

std::string trace_costs_json(const std::vector<TraceCosts>& ranks) {
  const auto times_json = [](const std::vector<TraceTime>& times, const char* unit) {
    Json list = Json::array();
    for (const TraceTime& time : times) list.push_back({{"name", time.name}, {"calls", time.calls}, {unit, time.us}});
    return list;
  };
  Json list = Json::array();
  for (const TraceCosts& rank : ranks)
    list.push_back({{"rank", rank.rank},
                    {"ranks", rank.ranks},
                    {"steps", rank.steps},
                    {"total_us", rank.total_us},
                    {"computation_us", rank.computation_us},
                    {"communication_us", rank.communication_us},
                    {"exposed_us", rank.exposed_us},
                    {"data_wait_us", rank.data_wait_us},
                    {"costs", times_json(rank.costs, "self_us")},
                    {"phases", times_json(rank.phases, "us")}});
  return list.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace hearth::report
