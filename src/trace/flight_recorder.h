// SPDX-License-Identifier: Apache-2.0
// This process's flight recorder (trace/flight.h). Groups and messages record their calls in it once it has started.
#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file.h"
#include "trace/flight.h"

namespace hearth::trace {

// Records the calls of rank `rank` in FOLDER from now on. Call it once in a process. Throws an Error of base/file.h.
// Local.
void start_flight(const Path& folder, int64_t rank, int64_t ranks);
void set_flight_step(int64_t step);
void end_flight();  // notes that the rank ended without an error

// Where this process is: in a call that has not ended, or after its last call. Works before start_flight(), too.
struct CallNow {
  std::string name = "none";
  bool under_way = false;
  double seconds = 0;  // since the call began, or since the last one ended
};
CallNow call_now();
// Makes call_now() show a call of a library, which is not recorded, until the scope's end. Any thread.
class CallScope {
 public:
  explicit CallScope(std::string_view name);
  ~CallScope();
  CallScope(const CallScope&) = delete;
  CallScope& operator=(const CallScope&) = delete;
};

// Records the end of a call that FlightScope left open. Any thread.
void end_flight_call(uint64_t number);
// A line for the end of an error's text, "\n  calls: `hearth inspect RUN/flight` shows ..."; empty before the start.
std::string flight_hint();
// What rank `rank` recorded last, from its file in the same folder: "all_reduce, which has ended". Empty if the file is
// not by `process` ("HOST, process NUMBER"), or cannot be read within a second because the file system hangs.
std::string last_call_of(int64_t rank, std::string_view process);

// A group's place in the recorder. Its ranks are those of the training.
class FlightSeat {
 public:
  void set_ranks(std::vector<int64_t> ranks) { ranks_ = std::move(ranks); }
  const std::vector<int64_t>& ranks() const { return ranks_; }  // empty: all

 private:
  friend class FlightScope;
  std::vector<int64_t> ranks_;
  int32_t group_ = -1;
  int64_t sequence_ = 0;
};

// A call of a group from here to the scope's end; a call that throws stays under way. `peer`: the group's rank at the
// other end of a transfer, or kAllPeers.
class FlightScope {
 public:
  FlightScope(FlightSeat& seat, std::string_view name, int64_t bytes, int64_t peer);
  // A message was posted, or messages of all ranks are awaited. `number`: the message's number, from 1.
  FlightScope(std::string_view operation, uint64_t number, int64_t bytes, int32_t kind);
  ~FlightScope();
  FlightScope(const FlightScope&) = delete;
  FlightScope& operator=(const FlightScope&) = delete;

  uint64_t number() const { return number_; }  // 0: there is no recorder
  void leave_open() { number_ = 0; }           // end_flight_call(number) records its end

 private:
  uint64_t number_ = 0;
  const int exceptions_ = std::uncaught_exceptions();
};

}  // namespace hearth::trace
