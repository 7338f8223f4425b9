// SPDX-License-Identifier: Apache-2.0
#include "report/flight_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string_view>

#include "base/error.h"
#include "report/flight_verdict.h"
#include "report/svg.h"

namespace hearth::report {
namespace {

using trace::Flight;
using trace::FlightCall;

// In pixels.
constexpr double kPageWidth = 1100, kRowsLeft = 96, kPageRight = 16, kRowsTop = 66, kRowsBottom = 44, kLane = 10,
                 kRowGap = 8;
constexpr int kLanes = 3;
constexpr double kRowHeight = kLanes * kLane + kRowGap;

struct Kind {
  std::string_view name, colour;
  int lane;
};
constexpr Kind kGathers{"all_gather", "#2563eb", 0}, kSums{"reduce_scatter, all_reduce", "#dc2626", 0},
    kExchanges{"all_to_all", "#059669", 0}, kSends{"send", "#d97706", 1}, kReceives{"recv", "#9333ea", 1},
    kMessages{"messages", "#475569", 2};

const Kind& kind_of(const FlightCall& call) {
  const std::string_view name = call.name;
  if (call.peer == trace::kPostedMessage || call.peer == trace::kAwaitedMessage) return kMessages;
  if (call.peer != trace::kAllPeers) return name == "recv" ? kReceives : kSends;
  return name == "all_gather" ? kGathers : name.starts_with("all_to_all") ? kExchanges : kSums;
}

// The calls of a rank that are drawn.
std::vector<FlightCall> shown(const Flight& flight, int64_t last) {
  std::vector<FlightCall> calls = flight.calls;
  if (calls.empty()) return calls;
  if (last > 0) {
    calls.erase(calls.begin(), calls.end() - std::min(last, std::ssize(calls)));
  } else {
    const int64_t first_step = calls.back().step - 1;
    std::erase_if(calls, [&](const FlightCall& call) { return call.step < first_step; });
  }
  return calls;
}

// In milliseconds since the first call of the picture.
struct Times {
  int64_t begin_ns = std::numeric_limits<int64_t>::max(), end_ns = 0;

  void include(const FlightCall& call) {
    begin_ns = std::min(begin_ns, call.begin_ns);
    end_ns = std::max({end_ns, call.begin_ns, call.end_ns});
  }
  double ms(int64_t ns) const { return static_cast<double>(ns - begin_ns) / 1e6; }
  // A call under way lasts to the end of the picture.
  double end_ms(const FlightCall& call) const { return ms(call.under_way() ? end_ns : call.end_ns); }
};

std::string rectangle(double x, double y, double width, double height, std::string_view colour,
                      std::string_view more = "/>") {
  return fmt::format("<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" fill=\"{}\"{}\n", x, y, width,
                     height, colour, more);
}

std::string steps_of_row(const std::vector<FlightCall>& calls, const Times& times, const PlotAxis& x, double top) {
  std::string text;
  for (size_t begin = 0; begin < calls.size();) {
    size_t end = begin;
    while (end < calls.size() && calls[end].step == calls[begin].step) ++end;
    const double from = x.pixel(times.ms(calls[begin].begin_ns));
    const double to = x.pixel(end < calls.size() ? times.ms(calls[end].begin_ns) : times.end_ms(calls.back()));
    text += rectangle(from, top, to - from, kLanes * kLane, calls[begin].step % 2 == 0 ? "#f3f4f6" : "#e5e7eb",
                      fmt::format("><title>step {}</title></rect>", calls[begin].step));
    begin = end;
  }
  return text;
}

std::string row(const Flight& flight, const std::vector<FlightCall>& calls, const Times& times, const PlotAxis& x,
                double top) {
  std::string text = steps_of_row(calls, times, x, top);
  for (const FlightCall& call : calls) {
    const Kind& kind = kind_of(call);
    const double begin_ms = times.ms(call.begin_ns), end_ms = times.end_ms(call);
    const double from = x.pixel(begin_ms), width = std::max(0.3, x.pixel(end_ms) - from);
    const std::string what = fmt::format("{}: {}{:.3f} ms, step {}", describe_call(flight, call),
                                         call.under_way() ? "under way since " : "", end_ms - begin_ms, call.step);
    text += rectangle(from, top + kind.lane * kLane, width, kLane - 1, kind.colour,
                      fmt::format(" class=\"call\"><title>{}</title></rect>", escaped_for_svg(what)));
  }
  return text + fmt::format("<text x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">rank {}</text>\n", kRowsLeft - 8,
                            top + kLanes * kLane / 2 + 4, flight.rank);
}

std::string legend() {
  std::string text;
  double left = kRowsLeft;
  for (const Kind* kind : {&kGathers, &kSums, &kExchanges, &kSends, &kReceives, &kMessages}) {
    text += rectangle(left, 38, 12, 10, kind->colour);
    text += fmt::format("<text x=\"{}\" y=\"47\">{}</text>\n", left + 18, kind->name);
    left += 40 + 6.5 * static_cast<double>(kind->name.size());
  }
  return text;
}

}  // namespace

std::string flight_picture(const std::vector<Flight>& flights, int64_t last) {
  const size_t rows = std::min(flights.size(), kMostRanks);
  std::vector<std::vector<FlightCall>> calls;
  Times times;
  for (size_t i = 0; i < rows; ++i) {
    calls.push_back(shown(flights[i], last));
    for (const FlightCall& call : calls.back()) times.include(call);
  }
  if (times.end_ns == 0)
    throw user_error("there is no call to draw", "no rank has called another one yet", "train for some steps first");
  const PlotAxis x{0, std::max(times.ms(times.end_ns), 1e-3), kRowsLeft, kPageWidth - kPageRight};
  const double bottom = kRowsTop + static_cast<double>(rows) * kRowHeight, height = bottom + kRowsBottom;
  const std::string ranks =
      rows < flights.size() ? fmt::format("{} of {} ranks", rows, flights.size()) : fmt::format("{} ranks", rows);
  std::string text =
      svg_begin(kPageWidth, height, kRowsLeft, fmt::format("Calls of {} to each other", ranks)) + legend();
  for (size_t i = 0; i < rows; ++i)
    text += row(flights[i], calls[i], times, x, kRowsTop + static_cast<double>(i) * kRowHeight);
  for (const double value : ticks(x, 10))
    text += fmt::format("<text x=\"{:.2f}\" y=\"{}\" text-anchor=\"middle\">{:.7g}</text>\n", x.pixel(value),
                        bottom + 14, value);
  return text + fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">milliseconds</text>\n</svg>\n",
                            (kRowsLeft + kPageWidth - kPageRight) / 2, bottom + 34);
}

}  // namespace hearth::report
