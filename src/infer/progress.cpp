// SPDX-License-Identifier: Apache-2.0
#include "infer/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <utility>

#include "base/quantity.h"
#include "metrics/throughput.h"

namespace hearth::infer {

std::string progress_text(std::string_view what, std::string_view unit, const ProgressCounts& counts, double seconds,
                          std::string_view more) {
  std::string text = fmt::format("{}: {} of {} {}{}", what, counts.done, counts.all, unit, more);
  const int64_t now = counts.done - counts.before, left = counts.all - counts.done;
  if (now > 0 && left > 0)
    text += fmt::format(", {} left", format_duration(seconds / static_cast<double>(now) * static_cast<double>(left)));
  return text;
}

ProgressDisplay::ProgressDisplay(std::string what, std::string unit, int64_t before)
    : what_(std::move(what)), unit_(std::move(unit)), before_(before), start_s_(metrics::monotonic_seconds()) {}

ProgressDisplay::~ProgressDisplay() {
  if (drawn_s_ == 0) return;
  std::fputs("\r\x1b[K", stderr);  // fmt::print throws if the terminal is gone
  std::fflush(stderr);
}

void ProgressDisplay::show(int64_t done, int64_t all, std::string_view more) {
  const double now_s = metrics::monotonic_seconds();
  if (::isatty(STDERR_FILENO) != 1 || now_s - drawn_s_ < 0.2) return;
  drawn_s_ = now_s;
  std::fputs(("\r" + progress_text(what_, unit_, {done, all, before_}, seconds(), more) + "\x1b[K").c_str(), stderr);
  std::fflush(stderr);
}

double ProgressDisplay::seconds() const { return metrics::monotonic_seconds() - start_s_; }

}  // namespace hearth::infer
