// What a command shows while it works: one line on stderr, redrawn ten times a second on a terminal, nothing elsewhere.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace hearth::commands {

// From its making to its end; then the line is gone.
class ProgressLine {
 public:
  // `text` is called from another thread: what it reads must be atomic.
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

// "writing  [######........................]  20 %"; `share` is cut to 0 .. 1.
std::string progress_bar(const std::string& what, double share);

}  // namespace hearth::commands
