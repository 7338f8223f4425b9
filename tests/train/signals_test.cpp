#include "train/signals.h"

#include <gtest/gtest.h>

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

TEST(SignalsDeathTest, ASecondInterruptLeavesAtOnce) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(
      {
        SignalScope scope;
        std::raise(SIGINT);
        std::raise(SIGINT);
      },
      ::testing::KilledBySignal(SIGINT), "");
}

TEST(Signals, WhatWasThereBeforeComesBack) {
  std::signal(SIGTERM, SIG_IGN);
  { SignalScope scope; }
  EXPECT_EQ(std::signal(SIGTERM, SIG_DFL), SIG_IGN);
}

}  // namespace
}  // namespace hearth::train
