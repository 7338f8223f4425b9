// SPDX-License-Identifier: Apache-2.0
// RUN/flight/rank-00000.ring as `hearth inspect RUN/flight` reads it.
#include "report/flight_verdict.h"
#include "target.h"
#include "trace/flight.h"

namespace hearth::fuzz {

void run(std::string_view input) {
  const Path path = write_scratch("rank-00000.ring", input);
  accepted([&] {
    const std::vector<trace::Flight> flights = {trace::read_flight(path)};
    require(!report::format_flights(flights, 2).empty(), "no text");
    require(!report::flights_json(flights, 2).empty(), "no JSON");
  });
}

std::vector<std::string> seeds() {
  const Path path = scratch() / "seed.ring";
  {
    trace::FlightWriter writer(path, 0, 4);
    const int32_t all = writer.add_group({0, 1, 4}), pair = writer.add_group({0, 2, 2});
    writer.end(writer.begin("all_gather", all, 1, 64, trace::kAllPeers));
    writer.end(writer.begin("send", pair, 0, 64, 2));
    writer.end(writer.begin("a vote", all, 1, 4, trace::kPostedMessage));
    writer.begin("a vote", all, 1, 0, trace::kAwaitedMessage);
  }
  return {read_file(path)};
}

}  // namespace hearth::fuzz
