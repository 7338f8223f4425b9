// SPDX-License-Identifier: Apache-2.0
#include "trace/flight_recorder.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <future>
#include <mutex>
#include <system_error>
#include <thread>

#include "base/error.h"
#include "base/text.h"

namespace hearth::trace {
namespace {

struct Recorder {
  FlightWriter writer;
  Path folder;
  int32_t messages;  // the group of comm/control.h: all ranks
  int64_t ranks;
};

using Clock = std::chrono::steady_clock;

// The calls of this process that are under way, and its last one.
struct Now {
  std::mutex mutex;
  int under_way = 0;
  char name[48] = "none";
  Clock::time_point since = Clock::now();
};
Now& now() {
  static Now* const all = new Now;  // threads may still make calls while the process exits
  return *all;
}

void enter(std::string_view name) {
  Now& n = now();
  const std::lock_guard lock(n.mutex);
  ++n.under_way;
  const size_t size = std::min(name.size(), sizeof n.name - 1);
  std::copy_n(name.begin(), size, n.name);
  n.name[size] = '\0';
  n.since = Clock::now();
}

void leave() {
  Now& n = now();
  const std::lock_guard lock(n.mutex);
  --n.under_way;
  n.since = Clock::now();
}

// Threads may still record while the process exits: it is never destroyed.
std::atomic<Recorder*> recorder = nullptr;

FlightGroup group_of(const std::vector<int64_t>& ranks, int64_t all) {
  if (ranks.empty()) return {.count = static_cast<int32_t>(all)};
  const int64_t step = ranks.size() > 1 ? ranks[1] - ranks[0] : 1;  // along the mesh's axes steps are equal
  return {static_cast<int32_t>(ranks[0]), static_cast<int32_t>(step), static_cast<int32_t>(ranks.size())};
}

}  // namespace

void start_flight(const Path& folder, int64_t rank, int64_t ranks) {
  HEARTH_CHECK(recorder == nullptr, "a second flight recorder");
  auto* started = new Recorder{{flight_file(folder, rank), rank, ranks}, folder, 0, ranks};
  started->messages = started->writer.add_group(group_of({}, ranks));
  recorder = started;
}

void set_flight_step(int64_t step) {
  if (Recorder* const r = recorder) r->writer.set_step(step);
}

void end_flight() {
  if (Recorder* const r = recorder) r->writer.set_ended();
}

void end_flight_call(uint64_t number) {
  if (Recorder* const r = recorder) r->writer.end(number);
}

std::string flight_hint() {
  const Recorder* const r = recorder;
  return r == nullptr ? ""
                      : fmt::format("\n  calls: `hearth inspect {}` shows the last ones of each rank",
                                    shell_word(r->folder.string()));
}

std::string last_call_of(int64_t rank, std::string_view process) {
  const Recorder* const r = recorder;
  if (r == nullptr) return {};
  std::packaged_task<std::string()> look([file = flight_file(r->folder, rank), who = std::string(process)] {
    try {
      const Flight flight = read_flight(file);
      const bool is_its = who.starts_with(flight.host) && who.ends_with(fmt::format(", process {}", flight.process));
      if (!is_its || flight.calls.empty()) return std::string();
      const FlightCall& last = flight.calls.back();
      return fmt::format("{}, which has {}ended", last.name, last.under_way() ? "not " : "");
    } catch (const Error&) {
      return std::string();
    }
  });
  std::future<std::string> found = look.get_future();
  try {
    std::thread(std::move(look)).detach();
  } catch (const std::system_error&) {  // no more threads: the message about the hang counts more
    return {};
  }
  return found.wait_for(std::chrono::seconds(1)) == std::future_status::ready ? found.get() : std::string();
}

CallNow call_now() {
  Now& n = now();
  const std::lock_guard lock(n.mutex);
  return {n.name, n.under_way > 0, std::chrono::duration<double>(Clock::now() - n.since).count()};
}

CallScope::CallScope(std::string_view name) { enter(name); }
CallScope::~CallScope() { leave(); }

FlightScope::FlightScope(FlightSeat& seat, std::string_view name, int64_t bytes, int64_t peer) {
  enter(name);
  Recorder* const r = recorder;
  if (r == nullptr) return;
  if (seat.group_ < 0) seat.group_ = r->writer.add_group(group_of(seat.ranks_, r->ranks));
  const bool collective = peer == kAllPeers;
  const int64_t rank = collective ? peer : seat.ranks_.empty() ? peer : seat.ranks_[static_cast<size_t>(peer)];
  number_ = r->writer.begin(name, seat.group_, collective ? ++seat.sequence_ : 0, bytes, static_cast<int32_t>(rank));
}

FlightScope::FlightScope(std::string_view operation, uint64_t number, int64_t bytes, int32_t kind) {
  enter(operation);
  Recorder* const r = recorder;
  if (r == nullptr) return;
  number_ = r->writer.begin(operation, r->messages, static_cast<int64_t>(number), bytes, kind);
}

FlightScope::~FlightScope() {
  leave();
  if (number_ != 0 && std::uncaught_exceptions() == exceptions_) recorder.load()->writer.end(number_);
}

}  // namespace hearth::trace
