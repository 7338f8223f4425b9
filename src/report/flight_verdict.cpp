// SPDX-License-Identifier: Apache-2.0
#include "report/flight_verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <type_traits>

#include "base/quantity.h"

namespace hearth::report {
namespace {

using trace::Flight;
using trace::FlightCall;
using trace::FlightGroup;

// A group that several ranks recorded: the same ranks, and which of the groups with these ranks.
struct GroupName {
  int32_t first, step, count;
  int64_t which;
  auto operator<=>(const GroupName&) const = default;
};

GroupName name_of(const Flight& flight, int32_t group) {
  const FlightGroup& g = flight.groups[static_cast<size_t>(group)];
  const auto before = flight.groups.begin() + group;
  return {g.first, g.count > 1 ? g.step : 1, g.count, std::count(flight.groups.begin(), before, g)};
}

std::vector<int64_t> ranks_of(const GroupName& group) {
  std::vector<int64_t> ranks;
  for (int64_t i = 0; i < group.count; ++i) ranks.push_back(group.first + i * int64_t{group.step});
  return ranks;
}

bool is_message(const FlightCall& call) {
  return call.peer == trace::kPostedMessage || call.peer == trace::kAwaitedMessage;
}
bool is_collective(const FlightCall& call) { return call.peer == trace::kAllPeers; }

std::string list(const std::vector<int64_t>& ranks) {
  if (ranks.size() <= 8) return fmt::format("{}", fmt::join(ranks, ", "));
  return fmt::format("{}, {}, ..., {}", ranks[0], ranks[1], ranks.back());
}

// 0: `key` has made no call.
template <class Key>
int64_t last_of(const std::map<Key, int64_t>& lasts, const std::type_identity_t<Key>& key) {
  const auto found = lasts.find(key);
  return found == lasts.end() ? 0 : found->second;
}

class Case {
 public:
  explicit Case(const std::vector<Flight>& flights) : flights_(flights) {
    for (const Flight& flight : flights) {
      of_rank_[flight.rank] = &flight;
      for (const FlightCall& call : flight.calls) {
        const auto count_in = [&call](int64_t& last) { last = std::max(last, call.sequence); };
        if (call.peer == trace::kPostedMessage) count_in(posted_[flight.rank]);
        if (!is_collective(call)) continue;
        count_in(last_[{name_of(flight, call.group), flight.rank}]);
        if (!call.under_way()) count_in(done_[name_of(flight, call.group)]);
      }
    }
  }

  FlightVerdict verdict() const {
    if (const auto found = different_calls()) return *found;
    std::vector<int64_t> missing;
    for (int64_t rank = 0; rank < flights_[0].ranks; ++rank)
      if (!of_rank_.contains(rank)) missing.push_back(rank);
    if (!missing.empty())
      return {missing[0], fmt::format("rank{} {} left no record: {} did not start", missing.size() > 1 ? "s" : "",
                                      list(missing), missing.size() > 1 ? "they" : "it")};
    const auto [rank, call] = longest_wait();
    if (call != nullptr) return follow(*rank, *call);
    if (std::ranges::all_of(flights_, &Flight::ended)) return {{}, "all ranks ended well"};
    return behind();
  }

 private:
  // The call that was under way longest.
  std::pair<const Flight*, const FlightCall*> longest_wait() const {
    std::pair<const Flight*, const FlightCall*> longest{nullptr, nullptr};
    for (const Flight& flight : flights_)
      for (const FlightCall& call : flight.calls)
        if (!flight.ended && call.under_way() && (!longest.second || call.begin_ns < longest.second->begin_ns))
          longest = {&flight, &call};
    return longest;
  }

  // The rank that `call` of `flight` waits for; nullopt: all have come.
  std::optional<int64_t> awaited(const Flight& flight, const FlightCall& call) const {
    if (call.peer >= 0) return call.peer;
    std::optional<int64_t> furthest;
    int64_t least = call.sequence;
    const GroupName group = name_of(flight, call.group);
    for (const int64_t rank : ranks_of(group)) {
      const int64_t there = is_message(call) ? last_of(posted_, rank) : last_of(last_, {group, rank});
      if (there < least) furthest = rank, least = there;
    }
    return furthest;
  }

  FlightVerdict follow(const Flight& first, const FlightCall& first_call) const {
    const Flight* flight = &first;
    const FlightCall* call = &first_call;
    std::set<int64_t> seen = {flight->rank};
    const std::string waits = fmt::format("rank {} waits in {}", flight->rank, describe_call(*flight, *call));
    while (true) {
      const std::optional<int64_t> next = awaited(*flight, *call);
      if (!next) return stuck(*flight, *call);
      flight = of_rank_.at(*next);
      if (!seen.insert(*next).second)
        return {{},
                fmt::format("ranks {} wait for each other in a circle; {}", list({seen.begin(), seen.end()}), waits)};
      // A collective or a transfer first; then messages.
      call = nullptr;
      for (const FlightCall& mine : flight->calls)
        if (mine.under_way() && (call == nullptr || is_message(*call))) call = &mine;
      if (call != nullptr && !flight->ended) continue;
      const std::string last = flight->calls.empty()
                                   ? "it has made no call"
                                   : fmt::format("its last call was {}", describe_call(*flight, flight->calls.back()));
      return {*next, fmt::format("{}; rank {} ({}, process {}) did not come: {}", waits, *next, flight->host,
                                 flight->process, last)};
    }
  }

  // All ranks have begun `call`.
  FlightVerdict stuck(const Flight& flight, const FlightCall& call) const {
    const std::string in = fmt::format("rank {} is in {}", flight.rank, describe_call(flight, call));
    if (call.peer == trace::kPostedMessage)
      return {flight.rank, fmt::format("{} ({}, process {}): it was stopped there", in, flight.host, flight.process)};
    if (is_collective(call) && last_of(done_, name_of(flight, call.group)) >= call.sequence)
      return {flight.rank, fmt::format("{} ({}, process {}), which others have ended: it hangs there", in, flight.host,
                                       flight.process)};
    return {
        {},
        fmt::format("{}, which all its ranks have begun: one of them was stopped there, or the transfer hangs", in)};
  }

  // Two ranks whose call of the same number in a group differs.
  std::optional<FlightVerdict> different_calls() const {
    std::map<std::pair<GroupName, int64_t>, std::pair<const Flight*, const FlightCall*>> firsts;
    std::optional<FlightVerdict> found;
    int64_t earliest = 0;
    for (const Flight& flight : flights_) {
      for (const FlightCall& call : flight.calls) {
        if (!is_collective(call)) continue;
        const auto [place, is_new] =
            firsts.try_emplace({name_of(flight, call.group), call.sequence}, std::pair(&flight, &call));
        const auto& [other, others] = place->second;
        const std::string_view name = call.name;
        const bool may_differ = call.bytes == others->bytes || name == trace::kUnequalExchange;
        if (is_new || (name == others->name && may_differ)) continue;
        if (found && call.begin_ns >= earliest) continue;
        earliest = call.begin_ns;
        found = {std::nullopt, fmt::format("ranks {} and {} made different calls: {}, and {}", other->rank, flight.rank,
                                           describe_call(*other, *others), describe_call(flight, call))};
      }
    }
    return found;
  }

  // Nobody waits: the rank that made fewer calls of a group than others, or whose calls ended first.
  FlightVerdict behind() const {
    for (const auto& [key, last] : last_) {
      const auto& [group, rank] = key;
      for (const int64_t other : ranks_of(group)) {
        const int64_t there = last_of(last_, {group, other});
        if (there < last)
          return {other, fmt::format("rank {} made {} calls of ranks {}, rank {} made {}", other, there,
                                     list(ranks_of(group)), rank, last)};
      }
    }
    const auto end = [](const Flight& flight) { return flight.calls.empty() ? 0 : flight.calls.back().end_ns; };
    const auto [first, latest] = std::ranges::minmax(flights_, {}, [&](const Flight& flight) { return end(flight); });
    return {{},
            fmt::format("no rank waits for another, and all have made the same calls; rank {} was the first to "
                        "stop, {} before the last",
                        first.rank, format_duration(1e-9 * static_cast<double>(end(latest) - end(first))))};
  }

  const std::vector<Flight>& flights_;
  std::map<int64_t, const Flight*> of_rank_;
  std::map<GroupName, int64_t> done_;                      // the last collective of a group that any rank ended
  std::map<int64_t, int64_t> posted_;                      // the last message of a rank
  std::map<std::pair<GroupName, int64_t>, int64_t> last_;  // the last collective of a group that a rank began
};

std::vector<FlightCall> last_calls(const Flight& flight, int64_t last) {
  const auto skip = std::max<int64_t>(0, std::ssize(flight.calls) - last);
  return {flight.calls.begin() + skip, flight.calls.end()};
}

std::string state_of(const FlightCall& call) {
  if (call.under_way()) return "under way";
  return format_duration(1e-9 * static_cast<double>(std::max<int64_t>(0, call.end_ns - call.begin_ns)));
}

}  // namespace

FlightVerdict flight_verdict(const std::vector<Flight>& flights) { return Case(flights).verdict(); }

std::string describe_call(const Flight& flight, const FlightCall& call) {
  const std::string bytes = format_bytes(call.bytes);
  if (call.peer == trace::kPostedMessage) return fmt::format("sending \"{}\" (message {})", call.name, call.sequence);
  if (call.peer == trace::kAwaitedMessage) return fmt::format("\"{}\" (message {})", call.name, call.sequence);
  if (call.peer >= 0)
    return fmt::format("{} {} rank {}: {}", call.name, std::string_view(call.name) == "recv" ? "from" : "to", call.peer,
                       bytes);
  return fmt::format("{} {} of ranks {}: {}", call.name, call.sequence, list(ranks_of(name_of(flight, call.group))),
                     bytes);
}

std::string format_flights(const std::vector<Flight>& flights, int64_t last) {
  int64_t newest = 0;
  for (const Flight& flight : flights)
    for (const FlightCall& call : flight.calls) newest = std::max({newest, call.begin_ns, call.end_ns});
  std::string text;
  for (const Flight& flight : flights) {
    text += fmt::format("rank {} ({}, process {}): ", flight.rank, flight.host, flight.process);
    if (flight.ended) text += "ended well; ";
    if (flight.calls.empty()) {
      text += "no call\n";
      continue;
    }
    const FlightCall& call = flight.calls.back();
    const double ago_s = 1e-9 * static_cast<double>(newest - call.begin_ns);
    text += fmt::format("step {}, {}, {}, begun {} before the newest record\n", call.step, describe_call(flight, call),
                        state_of(call), format_duration(ago_s));
    if (last == 0) continue;
    for (const FlightCall& one : last_calls(flight, last))
      text += fmt::format("  {:>8}  step {:<6} {:<10} {}\n", one.number, one.step, state_of(one),
                          describe_call(flight, one));
  }
  return text + flight_verdict(flights).text + "\n";
}

std::string flights_json(const std::vector<Flight>& flights, int64_t last) {
  using Json = nlohmann::ordered_json;
  const FlightVerdict verdict = flight_verdict(flights);
  Json json = {{"verdict", verdict.text}, {"rank", nullptr}, {"ranks", Json::array()}};
  if (verdict.rank) json["rank"] = *verdict.rank;
  for (const Flight& flight : flights) {
    Json calls = Json::array();
    for (const FlightCall& call : last_calls(flight, std::max<int64_t>(1, last)))
      calls.push_back({{"number", call.number},
                       {"step", call.step},
                       {"call", describe_call(flight, call)},
                       {"bytes", call.bytes},
                       {"begin_ns", call.begin_ns},
                       {"end_ns", call.under_way() ? Json() : Json(call.end_ns)}});
    json["ranks"].push_back({{"rank", flight.rank},
                             {"host", flight.host},
                             {"process", flight.process},
                             {"ended", flight.ended},
                             {"calls", std::move(calls)}});
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace hearth::report
