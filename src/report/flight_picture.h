// SPDX-License-Identifier: Apache-2.0
// A picture of ranks' last calls to each other over time (trace/flight.h), as SVG that any browser shows.
#pragma once

#include <string>
#include <vector>

#include "trace/flight.h"

namespace hearth::report {

// The picture shows at most so many ranks: the first ones.
inline constexpr size_t kMostRanks = 64;

// A row for each rank, with a bar for each of its last `last` calls (0: the calls of its last two steps). A bar's text
// appears under the mouse. A row has three lanes, because calls of different lanes may run at once: collectives,
// transfers between two ranks, and messages. Where a lane is empty, the rank computes or waits in another lane. Steps
// have backgrounds of two greys. Times are by the ranks' hosts, whose clocks may differ. Throws user_error if there is
// no call.
std::string flight_picture(const std::vector<trace::Flight>& flights, int64_t last);

}  // namespace hearth::report
