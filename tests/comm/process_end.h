// SPDX-License-Identifier: Apache-2.0
// Processes as ranks that a test starts, and how they ended.
#pragma once

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <functional>
#include <string>
#include <thread>

#include "base/error.h"
#include "comm/join.h"
#include "launch/local_ranks.h"

namespace hearth::comm {

inline constexpr double kTimeout_s = 1;        // of ranks that hang
inline constexpr double kLongTimeout_s = 600;  // that ends no rank, and no test but one that hangs

struct End {
  int code = 0;
  double taken_s = 0;
  std::string said;  // on stderr
};

// Runs `body` as each of the processes, once all are there: however late they start, no time-out comes before it.
// `membership`: a change of a rank's.
inline End end_of(
    int64_t ranks, const std::function<void(Group&)>& body,
    const std::function<void(Membership&)>& membership = [](Membership&) {}, double timeout_s = kLongTimeout_s) {
  End end;
  testing::internal::CaptureStderr();
  const auto begin = std::chrono::steady_clock::now();
  const launch::LocalEnd local = launch::run_local_ranks(ranks, [&](const launch::LaunchedRank& launched) {
    at::set_num_threads(1);  // OpenMP's threads do not survive a fork
    Membership me{.rank = launched.rank, .size = launched.size, .address = launched.address, .key = launched.key};
    me.supervised = launched.supervised;
    membership(me);
    try {
      return run_as_rank(me, [&](Control&, const MakeGroup& make_group) {
        const auto group = make_group(config::Comm{.train_timeout_seconds = timeout_s}, {});
        group->control().barrier("the start");
        group->control().set_timeout(timeout_s);
        body(*group);
        return 0;
      });
    } catch (const Error& error) {
      std::fprintf(stderr, "%s\n", error.what());
      return static_cast<int>(error.code());
    }
  });
  end.code = local.code;
  end.taken_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  end.said = testing::internal::GetCapturedStderr();
  return end;
}

// The same where ranks hang.
inline End end_of_hanging(int64_t ranks, const std::function<void(Group&)>& body) {
  return end_of(
      ranks, body, [](Membership&) {}, kTimeout_s);
}

// The exit code of a process that was forked, when it ends; -1: a signal ended it.
inline int exit_code_of(pid_t child) {
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

inline int times(const std::string& text, const std::string& part) {
  int count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

inline void sum(Group& group, int64_t numel = 12) { group.all_reduce(at::empty({numel})); }
inline void sleep_long() { std::this_thread::sleep_for(std::chrono::hours(1)); }

}  // namespace hearth::comm
