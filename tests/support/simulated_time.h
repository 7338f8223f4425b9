// SPDX-License-Identifier: Apache-2.0
// Time that passes only while every thread of the process waits. A test whose threads spend it sees in which order
// they wait for each other, however busy the machine is.
#pragma once

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <thread>

namespace hearth::test {

class SimulatedTime {
 public:
  SimulatedTime() : clock_([this](const std::stop_token& stop) { run(stop); }) {}

  double now_s() {
    const std::lock_guard lock(mutex_);
    return now_s_;
  }
  // Returns when `s` have passed. What threads compute beside it takes no time.
  void spend(double s) {
    std::unique_lock lock(mutex_);
    const double until_s = now_s_ + s;
    const auto mine = ends_s_.insert(until_s);
    passed_.wait(lock, [&] { return now_s_ >= until_s; });
    ends_s_.erase(mine);
  }

 private:
  // How often the other threads were switched; nullopt if one of them runs or could run.
  static std::optional<int64_t> switches_of_sleepers() {
    int64_t switches = 0;
    const std::string own = std::to_string(::syscall(SYS_gettid));
    for (const auto& thread : std::filesystem::directory_iterator("/proc/self/task")) {
      if (thread.path().filename() == own) continue;
      std::ifstream status(thread.path() / "status");  // without a line if the thread has ended
      std::string key, value;
      while (status >> key && std::getline(status >> std::ws, value)) {
        if (key == "State:" && value.front() != 'S') return std::nullopt;
        if (key.ends_with("ctxt_switches:")) switches += std::stoll(value);
      }
    }
    return switches;
  }
  // Threads that slept at both looks may have run between them: then they were switched.
  static bool everybody_waits() {
    const std::optional<int64_t> before = switches_of_sleepers();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return before && switches_of_sleepers() == before;
  }
  void run(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      const bool waits = everybody_waits();
      const std::lock_guard lock(mutex_);
      if (!waits || ends_s_.empty() || *ends_s_.begin() <= now_s_) continue;
      now_s_ = *ends_s_.begin();
      passed_.notify_all();
    }
  }

  std::mutex mutex_;  // guards the members below
  std::condition_variable passed_;
  double now_s_ = 0;
  std::multiset<double> ends_s_;
  std::jthread clock_;
};

}  // namespace hearth::test
