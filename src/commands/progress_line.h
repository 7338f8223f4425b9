// The progress of a command: one line on stderr, redrawn ten times a second on a terminal, else nothing.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

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

// "writing  [######........................]  20 %"; `share` is clamped to 0 .. 1.
std::string progress_bar(const std::string& what, double share);

}  // namespace hearth::commands
