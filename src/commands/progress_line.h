// SPDX-License-Identifier: Apache-2.0
// The progress of a command: one line on stderr, redrawn ten times a second on a terminal, else nothing.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "metrics/throughput.h"

namespace hearth::commands {

// The line is visible from construction to destruction.
class ProgressLine {
 public:
  // Another thread calls `text`: it may only read atomics.
  explicit ProgressLine(std::function<std::string()> text);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

 private:
  void draw_until_done();

  std::function<std::string()> text_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool done_ = false;
  std::thread thread_;
};

// Shows the line while `work` runs, and returns its result.
auto with_progress(std::function<std::string()> text, const auto& work) {
  const ProgressLine shown(std::move(text));
  return work();
}

// "writing  [######........................]  20 %"; `share` is clamped to 0 .. 1.
std::string progress_bar(const std::string& what, double share);
// The same with bytes: "writing  [######........................]  20 %  3.20 GiB of 16.0 GiB". With `seconds`, the
// time that they took, it also shows their rate and the remaining time, from the first second on: "  410.0 MiB/s  32 s
// left".
std::string bytes_bar(const std::string& what, int64_t done, int64_t all, double seconds = 0);

// Seconds since its construction.
struct Stopwatch {
  double start_s = metrics::monotonic_seconds();
  double seconds() const { return metrics::monotonic_seconds() - start_s; }
};

}  // namespace hearth::commands
