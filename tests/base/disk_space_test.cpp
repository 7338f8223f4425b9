// SPDX-License-Identifier: Apache-2.0
#include "base/disk_space.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "support/environment.h"

namespace hearth {
namespace {

TEST(DiskSpace, IsThatOfTheNearestFolderThatExists) {
  const test::ScratchFolder scratch;
  const Path deep = scratch / "not/there/yet";
  const auto available = static_cast<int64_t>(std::filesystem::space(scratch.path()).available);
  require_disk_space(deep, available / 2, "the test", "none");
  try {
    require_disk_space(deep, int64_t{1} << 62, "the test", "take another");
    FAIL() << "4 EiB are free";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kHardware);
    EXPECT_EQ(error.message(), scratch.path().string() + " is too small for the test");
    EXPECT_THAT(error.what(), testing::AllOf(testing::HasSubstr("are needed and"), testing::HasSubstr("take another")));
  }
}

}  // namespace
}  // namespace hearth
