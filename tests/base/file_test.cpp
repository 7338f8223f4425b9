#include "base/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace hearth {
namespace {

using testing::HasSubstr;

// proc_pid_status(5): "Name:", the state, ..., "Pid:". Such files have size 0 until they are read.
TEST(File, WhatTheKernelMakesUpIsReadToItsEnd) {
  ASSERT_EQ(std::filesystem::file_size("/proc/self/status"), 0U);
  const std::string status = read_file("/proc/self/status");
  EXPECT_TRUE(status.starts_with("Name:\t")) << status;
  EXPECT_THAT(status, HasSubstr("\nPid:\t" + std::to_string(::getpid()) + "\n")) << status;
  EXPECT_TRUE(status.ends_with("\n")) << status;
}

}  // namespace
}  // namespace hearth
