// SPDX-License-Identifier: Apache-2.0
#include "commands/progress_line.h"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "base/quantity.h"

namespace hearth::commands {

ProgressLine::ProgressLine(std::function<std::string()> text) : text_(std::move(text)) {
  if (::isatty(STDERR_FILENO) == 1) thread_ = std::thread([this] { draw_until_done(); });
}

ProgressLine::~ProgressLine() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }
  wake_.notify_one();
  thread_.join();
  std::fputs("\r\033[K", stderr);  // fmt::print throws if the terminal is gone
}

void ProgressLine::draw_until_done() {
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, std::chrono::milliseconds(100), [this] { return done_; })) {
    std::fputs(("\r\033[K" + text_()).c_str(), stderr);
    std::fflush(stderr);
  }
}

std::string progress_bar(const std::string& what, double share) {
  constexpr int kWidth = 30;
  const double cut = std::clamp(share, 0.0, 1.0);
  const auto filled = static_cast<int>(cut * kWidth);
  return fmt::format("{:8} [{:#>{}}{:.>{}}] {:3.0f} %", what, "", filled, "", kWidth - filled, cut * 100);
}

std::string bytes_bar(const std::string& what, int64_t done, int64_t all, double seconds) {
  const auto bytes = static_cast<double>(done);
  std::string text = progress_bar(what, all > 0 ? bytes / static_cast<double>(all) : 0);
  if (all > 0) text += fmt::format("  {} of {}", format_bytes(done), format_bytes(all));
  if (done <= 0 || done >= all || seconds < 1) return text;
  return text + fmt::format("  {}/s  {} left", format_bytes(static_cast<int64_t>(bytes / seconds)),
                            format_duration(static_cast<double>(all - done) / bytes * seconds));
}

}  // namespace hearth::commands
