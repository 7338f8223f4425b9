// SPDX-License-Identifier: Apache-2.0
// A flight recorder: the last calls of a rank to other ranks, in a file that outlives the process. After a hang or a
// death `hearth inspect RUN/flight` reads the files of all ranks and says who did not come (report/flight_verdict.h).
//
// A file, RUN/flight/rank-00003.ring, is an array in memory that is mapped from disk: the kernel keeps what was written
// there when the process is killed. After a loss of power, what the kernel had not written back is missing. Numbers are
// in the host's byte order; the reader must have the same.
//
//   FlightHead                          magic, version, rank, host, groups
//   FlightCall[kFlightCalls]            call number n is in place n % kFlightCalls
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"

namespace hearth::trace {

inline constexpr int64_t kFlightCalls = 4096, kFlightGroups = 64;

// `count` ranks: first, first + step, ...
struct FlightGroup {
  int32_t first = 0, step = 1, count = 0, unused = 0;
  bool operator==(const FlightGroup&) const = default;
};

// The name of an exchange of parts of any lengths: its ranks record different numbers of bytes.
inline constexpr const char* kUnequalExchange = "all_to_allv";

// Values of FlightCall::peer that are no rank.
inline constexpr int32_t kAllPeers = -1;        // a collective of the group
inline constexpr int32_t kPostedMessage = -2;   // a message of comm/control.h was sent
inline constexpr int32_t kAwaitedMessage = -3;  // messages of all ranks are awaited

struct FlightCall {
  uint64_t number;           // counts this rank's calls, from 1; 0: there is no call here
  int64_t sequence;          // counts the group's collectives, or messages, from 1; 0: a transfer between two ranks
  int64_t step;              // of the training; 0: before it
  int64_t bytes;             // of this rank's tensor
  int64_t begin_ns, end_ns;  // since 1970; end 0: under way. On a GPU the end is at most 50 ms late
  int32_t group, peer;       // index of FlightHead::groups; the other rank of a transfer, or one of the kinds above
  char name[32];             // ends with 0

  bool under_way() const { return end_ns == 0; }
};
static_assert(sizeof(FlightCall) == 88);

struct FlightHead {
  char magic[8];  // "HEARTHFR"
  uint32_t version, num_groups;
  int64_t rank, ranks, process;
  int64_t ended;  // 1: the rank ended without an error
  char host[64];
  FlightGroup groups[kFlightGroups];
};

class FlightWriter {
 public:
  // Makes the file anew. Throws an Error of base/file.h.
  FlightWriter(const Path& file, int64_t rank, int64_t ranks);
  ~FlightWriter();
  FlightWriter(const FlightWriter&) = delete;
  FlightWriter& operator=(const FlightWriter&) = delete;

  // Any thread may call these. Returns a group's index; groups beyond kFlightGroups share the last one.
  int32_t add_group(const FlightGroup& group);
  // Records a call and returns its number, for end().
  uint64_t begin(std::string_view name, int32_t group, int64_t sequence, int64_t bytes, int32_t peer);
  void end(uint64_t number);
  void set_step(int64_t step) { step_ = step; }
  void set_ended();

 private:
  FlightHead* head_ = nullptr;
  FlightCall* calls_ = nullptr;
  std::atomic<uint64_t> number_ = 0;
  std::atomic<int64_t> step_ = 0;
  std::atomic<uint32_t> num_groups_ = 0;
};

// A file as it was found.
struct Flight {
  int64_t rank = 0, ranks = 1, process = 0;
  std::string host;
  bool ended = false;
  std::vector<FlightGroup> groups;
  std::vector<FlightCall> calls;  // by number; only the last kFlightCalls calls
};

Path flight_file(const Path& folder, int64_t rank);  // FOLDER/rank-00003.ring
bool has_flights(const Path& folder);                // whether the folder has such files
// Throws damaged() for any other file.
Flight read_flight(const Path& file);
// All files of a folder, by rank. Throws damaged(), and user_error without any file.
std::vector<Flight> read_flights(const Path& folder);

}  // namespace hearth::trace
