// SPDX-License-Identifier: Apache-2.0
// A rank fails, hangs, is late, or calls another operation: all ranks stop, and the error names the right one.
#include <ATen/ops/empty.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <stdexcept>
#include <thread>

#include "base/error.h"
#include "comm/ranks.h"
#include "process_end.h"

namespace hearth::comm {
namespace {

using testing::HasSubstr;

void wait_for(const std::atomic<bool>& flag) {
  while (!flag) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

// The error run_ranks throws; a test that expects none fails with "nothing".
Error error_of(int64_t ranks, double timeout_s, const std::function<void(Group&)>& body) {
  try {
    run_ranks(ranks, timeout_s, body);
  } catch (const Error& error) {
    return error;
  }
  return Error(ExitCode::kDone, "nothing");
}

TEST(Failure, OfOneRankEndsTheOthersAndIsTheOneReported) {
  for (const int64_t failing : {0, 1, 3}) {
    const Error error = error_of(4, kLongTimeout_s, [&](Group& group) {
      group.control().barrier("a barrier");
      if (group.rank() == failing) throw user_error(fmt::format("rank {} has a reason", failing));
      group.control().sum("a sum", std::vector<double>{1});
      FAIL() << "went on";
    });
    EXPECT_EQ(error.message(), fmt::format("rank {} has a reason", failing));
    EXPECT_EQ(error.code(), ExitCode::kUser);
  }
}

TEST(Failure, IsReportedFromTheFirstRankThatFailed) {
  const Error error = error_of(3, kLongTimeout_s, [](Group& group) {
    if (group.rank() == 2) throw user_error("first");
    EXPECT_THROW(group.control().barrier("a barrier"), Aborted);
    throw user_error("later");
  });
  EXPECT_EQ(error.message(), "first");
}

TEST(Failure, OfAnyTypeIsRethrown) {
  EXPECT_THROW(
      run_ranks(2, kLongTimeout_s, [](Group& group) { throw std::length_error(std::to_string(group.rank())); }),
      std::length_error);
  EXPECT_THROW(run_ranks(1, kLongTimeout_s, [](Group&) { throw std::length_error("alone"); }), std::length_error);
}

TEST(Failure, LetsARankThatIsBusyNoticeAtItsNextCall) {
  std::atomic<bool> others_know = false, noticed = false;
  const Error error = error_of(3, kLongTimeout_s, [&](Group& group) {
    if (group.rank() == 0) throw user_error("early");
    if (group.rank() == 2) {
      EXPECT_THROW(group.control().barrier("a barrier"), Aborted);
      others_know = true;
      return;
    }
    wait_for(others_know);  // busy
    try {
      group.control().barrier("a barrier");
    } catch (const Aborted&) {
      noticed = true;
      throw;
    }
  });
  EXPECT_EQ(error.message(), "early");
  EXPECT_TRUE(noticed);
}

// The started call waits for ranks that will never make it: they wait for this one, which says in vain that it comes.
TEST(Failure, DoesNotWaitForItsStartedCalls) {
  const Error error = error_of(3, kLongTimeout_s, [](Group& group) {
    const at::Tensor values = at::empty({12});
    struct Finish {
      Group& group;
      ~Finish() { group.stream().finish(); }
    } finish{group};
    if (group.rank() == 2) {
      const Work work = group.start([&] { group.all_reduce(values); });
      throw user_error("early");
    }
    group.control().barrier("a barrier");
  });
  EXPECT_EQ(error.message(), "early");
}

TEST(Failure, OfAStartedCallIsThrownWhereItIsAwaited) {
  const Error error = error_of(2, kLongTimeout_s, [](Group& group) {
    Work work = group.start([&] {
      if (group.rank() == 1) throw user_error("started");
    });
    work.wait();
    group.control().barrier("a barrier");
  });
  EXPECT_EQ(error.message(), "started");
}

TEST(Failure, OfARankThatOnlyAbortsIsOurBug) {
  const Error error = error_of(2, kLongTimeout_s, [](Group& group) {
    if (group.rank() == 0) group.control().abort();
    group.control().barrier("a barrier");
  });
  EXPECT_EQ(error.code(), ExitCode::kBug);
}

// Ranks 1 and 3 come after the time-out.
Error error_of_two_late_ranks(double timeout_s) {
  std::barrier all_are_there(4);
  std::atomic<bool> is_over = false;
  return error_of(4, timeout_s, [&](Group& group) {
    const at::Tensor values = at::empty({12});
    all_are_there.arrive_and_wait();
    if (group.rank() == 1 || group.rank() == 3) wait_for(is_over);
    try {
      group.all_reduce(values);
    } catch (const Error&) {
      is_over = true;
      throw;
    }
  });
}

TEST(Timeout, NamesTheLateRanksAndTheOperation) {
  const std::string expected = "all_reduce of 12 x Float; not arrived: rank 1 (its last call: none), rank 3 (its";
  Error error = error_of_two_late_ranks(0.2);
  // On a busy machine another rank may be late, too: it gets more time.
  for (double timeout_s = 1; timeout_s < 60 && error.message().find(expected) == std::string::npos; timeout_s *= 4)
    error = error_of_two_late_ranks(timeout_s);
  EXPECT_EQ(error.code(), ExitCode::kHardware);
  EXPECT_THAT(error.message(), HasSubstr(expected));
}

TEST(Timeout, DoesNotHitRanksThatAreSlowButInTime) {
  run_ranks(3, kLongTimeout_s, [](Group& group) {
    for (int64_t i = 0; i < 3; ++i) {
      if (group.rank() == i) std::this_thread::sleep_for(std::chrono::milliseconds(60));
      EXPECT_THAT(group.control().sum("a sum", std::vector<double>{1}), testing::ElementsAre(3));
    }
  });
}

TEST(Timeout, IsNotNeededWhenAnAwaitedRankHasEnded) {
  const Error error = error_of(3, kLongTimeout_s, [](Group& group) {
    if (group.rank() != 1) group.control().barrier("a barrier");
  });
  EXPECT_EQ(error.code(), ExitCode::kBug);
  EXPECT_THAT(error.message(), HasSubstr("waits in a barrier for ranks that have ended: rank 1")) << error.message();
}

TEST(Disagreement, OverTheOperationIsOurBugAndNamed) {
  const Error error = error_of(3, kLongTimeout_s, [](Group& group) {
    if (group.rank() == 2) {
      group.control().any("a vote", true);
    } else {
      group.control().barrier("a barrier");
    }
  });
  EXPECT_EQ(error.code(), ExitCode::kBug);
  EXPECT_EQ(error.message(), "ranks disagree: rank 0 is in a barrier, rank 2 in a vote");
}

TEST(Disagreement, OverSizeOrTypeIsOurBugAndNamed) {
  EXPECT_EQ(
      error_of(2, kLongTimeout_s, [](Group& group) { group.all_reduce(at::empty({10 + group.rank()})); }).message(),
      "ranks disagree: rank 0 is in all_reduce of 10 x Float, rank 1 in all_reduce of 11 x Float");
  EXPECT_EQ(
      error_of(2, kLongTimeout_s,
               [](Group& group) { group.all_reduce(at::empty({4}, group.rank() == 0 ? at::kFloat : at::kDouble)); })
          .message(),
      "ranks disagree: rank 0 is in all_reduce of 4 x Float, rank 1 in all_reduce of 4 x Double");
}

// Death tests run in a process of their own.
TEST(HangingRankDeathTest, EndsTheProcessWithTheFirstMessage) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto body = [](Group& group) {
    if (group.rank() == 0) throw user_error("the real reason");
    std::this_thread::sleep_for(std::chrono::hours(1));
  };
  EXPECT_EXIT(run_ranks(2, kLongTimeout_s, body, 0.1), testing::ExitedWithCode(static_cast<int>(ExitCode::kHardware)),
              "the real reason\n.*rank 1 does not stop");
}

}  // namespace
}  // namespace hearth::comm
