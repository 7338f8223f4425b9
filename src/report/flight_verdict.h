// SPDX-License-Identifier: Apache-2.0
// Who did not come: what the records of all ranks' calls (trace/flight.h) say after a hang or a death. This is
// arithmetic; all calls are Local.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trace/flight.h"

namespace hearth::report {

struct FlightVerdict {
  std::optional<int64_t> rank;  // whose fault it is, if it is one rank's
  std::string text;             // one sentence
};

// From the call that ranks have waited in longest, goes to a rank that did not make this call, and from there on to
// what that rank waits for, until a rank waits for nobody: it computes, hangs or is dead. First it looks for ranks that
// made different calls.
FlightVerdict flight_verdict(const std::vector<trace::Flight>& flights);

// "all_gather 812 of ranks 0, 2, 4, 6: 33.6 MB"; "send to rank 3: 64 B"; "the counts of a step (message 12)".
std::string describe_call(const trace::Flight& flight, const trace::FlightCall& call);

// A line for each rank, and the verdict. `last`: also that many of the last calls of each rank.
std::string format_flights(const std::vector<trace::Flight>& flights, int64_t last);
std::string flights_json(const std::vector<trace::Flight>& flights, int64_t last);

}  // namespace hearth::report
