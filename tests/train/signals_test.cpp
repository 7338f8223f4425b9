// SPDX-License-Identifier: Apache-2.0
#include "train/signals.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>

namespace hearth::train {
namespace {

TEST(Signals, TerminateInterruptAndUser2AskToLeave) {
  for (const int number : {SIGTERM, SIGINT, SIGUSR2}) {
    SignalScope scope;
    EXPECT_FALSE(leave_requested());
    std::raise(number);
    EXPECT_TRUE(leave_requested());
    EXPECT_TRUE(leave_requested()) << "it stays asked";
  }
}

TEST(Signals, User1AsksForOneSave) {
  SignalScope scope;
  EXPECT_FALSE(take_save_request());
  std::raise(SIGUSR1);
  std::raise(SIGUSR1);
  EXPECT_TRUE(take_save_request());
  EXPECT_FALSE(take_save_request());
  EXPECT_FALSE(leave_requested());
}

// One Ctrl-C may come twice: from the terminal, and from the process that started this one.
TEST(Signals, TwoInterruptsWithinASecondAreOneRequest) {
  SignalScope scope;
  std::raise(SIGINT);
  std::raise(SIGINT);
  EXPECT_TRUE(leave_requested());
}

TEST(SignalsDeathTest, AnInterruptASecondLaterLeavesAtOnce) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        SignalScope scope;
        std::raise(SIGINT);
        ::sleep(1);
        std::raise(SIGINT);
      },
      ::testing::KilledBySignal(SIGINT), "");
}

// The process that started a rank of several decides for all of them.
TEST(Signals, AnInterruptASecondLaterIsAnothersToAnswer) {
  SignalScope scope({.ends_by_interrupt = false});
  std::raise(SIGINT);
  ::sleep(1);
  std::raise(SIGINT);
  EXPECT_TRUE(leave_requested());
}

TEST(Signals, TheFirstRequestIsAnswered) {
  ::testing::internal::CaptureStdout();
  {
    SignalScope scope({.speaks = true});
    std::raise(SIGINT);
    std::raise(SIGTERM);
  }
  {
    SignalScope scope({.speaks = true});
    std::raise(SIGUSR2);
  }
  {
    SignalScope silent;
    std::raise(SIGTERM);
  }
  EXPECT_EQ(::testing::internal::GetCapturedStdout(),
            "asked to stop: the run finishes its step, saves and ends; Ctrl-C once more ends it now, without a save\n"
            "asked to stop: the run finishes its step, saves and ends\n");
}

TEST(Signals, WhatWasThereBeforeComesBack) {
  std::signal(SIGTERM, SIG_IGN);
  { SignalScope scope; }
  EXPECT_EQ(std::signal(SIGTERM, SIG_DFL), SIG_IGN);
}

}  // namespace
}  // namespace hearth::train
