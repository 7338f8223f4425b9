// SPDX-License-Identifier: Apache-2.0
// The progress of a long command for people: one line on stderr, redrawn five times a second on a terminal, else
// nothing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace hearth::infer {

// What is done, and the remaining time at the rate since the start: "validation: 120 of 640 batches, 32 s left".
// `before`: units that were done before the start. `more`: text before the time, such as ", 512 tokens/s".
struct ProgressCounts {
  int64_t done = 0, all = 0, before = 0;
};
std::string progress_text(std::string_view what, std::string_view unit, const ProgressCounts& counts, double seconds,
                          std::string_view more = {});

class ProgressDisplay {
 public:
  // `what` is done in `unit`s: "validation", "batches".
  ProgressDisplay(std::string what, std::string unit, int64_t before = 0);
  ~ProgressDisplay();  // clears the line
  ProgressDisplay(const ProgressDisplay&) = delete;
  ProgressDisplay& operator=(const ProgressDisplay&) = delete;

  void show(int64_t done, int64_t all, std::string_view more = {});
  double seconds() const;  // since the construction

 private:
  const std::string what_, unit_;
  const int64_t before_;
  const double start_s_;
  double drawn_s_ = 0;
};

}  // namespace hearth::infer
