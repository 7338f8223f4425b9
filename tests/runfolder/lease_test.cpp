// SPDX-License-Identifier: Apache-2.0
// A training that was replaced by another start does not write any more.
#include "runfolder/lease.h"

#include <gmock/gmock.h>

#include "support/environment.h"
#include "support/errors.h"

namespace hearth::runfolder {
namespace {

using testing::HasSubstr;

TEST(Lease, IsThatOfTheNewestStart) {
  const test::ScratchFolder folder;
  const Lease first = Lease::take(folder);
  first.check();
  EXPECT_EQ(first.number(), 1);
  const Lease second = Lease::take(folder);
  EXPECT_EQ(second.number(), 2);
  second.check();
  const Error error = test::error_of([&] { first.check(); });
  EXPECT_EQ(error.code(), ExitCode::kHardware);
  EXPECT_THAT(error.message(), HasSubstr("this training was replaced by another start: on "));
  EXPECT_THAT(error.message(), HasSubstr(fmt::format("process {}, at 20", ::getpid())));
}

// Two starts at the same moment have one number.
TEST(Lease, OfEqualNumbersIsThatOfTheLast) {
  const test::ScratchFolder folder;
  const Lease first = Lease::take(folder);
  std::filesystem::remove(folder / "lease");
  const Lease second = Lease::take(folder);
  EXPECT_EQ(first.number(), second.number());
  EXPECT_FALSE(first.is_held());
  EXPECT_TRUE(second.is_held());
  EXPECT_EQ(Lease::newest(folder), 1);
}

TEST(Lease, ThatIsGoneOrDamagedIsNoLongerHeldAndCanBeTaken) {
  const test::ScratchFolder folder;
  const Lease first = Lease::take(folder);
  std::filesystem::remove(folder / "lease");
  EXPECT_THAT(test::error_of([&] { first.check(); }).message(), HasSubstr("lease is gone or damaged"));
  write_file_atomic(folder / "lease", std::string("\0start =", 8));
  EXPECT_EQ(test::error_of([&] { first.check(); }).code(), ExitCode::kHardware);
  const Lease again = Lease::take(folder);
  again.check();
  EXPECT_EQ(again.number(), 1);
}

}  // namespace
}  // namespace hearth::runfolder
