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

// First looks for ranks that made different calls. Otherwise takes the call in which ranks have waited longest, and a
// rank that did not make this call. If that rank waits in another call, looks there for the next one, until a rank
// waits for nobody: it computes, hangs or is dead.
FlightVerdict flight_verdict(const std::vector<trace::Flight>& flights);

// "all_gather 812 of ranks 0, 2, 4, 6: 33.6 MB"; "send to rank 3: 64 B"; "the counts of a step (message 12)".
std::string describe_call(const trace::Flight& flight, const trace::FlightCall& call);

// A line for each rank, and the verdict. `last`: how many of each rank's last calls to list; 0: none.
std::string format_flights(const std::vector<trace::Flight>& flights, int64_t last);
std::string flights_json(const std::vector<trace::Flight>& flights, int64_t last);

}  // namespace hearth::report
