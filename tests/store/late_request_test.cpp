// SPDX-License-Identifier: Apache-2.0
// Requests that a store does twice, or long after its client gave up, or whose answer is lost: nothing that is finished
// changes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/copy_tree.h"
#include "late_requests.h"
#include "support/errors.h"

namespace hearth::checkpoint {
namespace {

TEST(LateRequest, OfASaveAPruneOrACopyLosesNothingThatIsFinished) {
  HEARTH_NEEDS_STORE();
  with_every_request_twice_late_or_lost(41);
}

// An object with another content stays as it is: a late request of an earlier copy has the same effect.
TEST(LateRequest, OfACopyFindsTheObjectOfALaterOne) {
  HEARTH_NEEDS_STORE();
  const test::ScratchFolder scratch;
  const Path to = kStore / "two-copies";
  CopyProgress progress;
  for (const std::string name : {"first", "second"}) {
    make_folders(scratch / name);
    test::write_text(scratch / name / "weights", name + " content");
  }
  S3Server& server = S3Server::get();
  server.set_faults("PUT weights 1 1 late");
  copy_tree(scratch / "first", to, progress);
  server.set_faults("");
  EXPECT_THAT(test::error_of([&] { copy_tree(scratch / "second", to, progress); }).what(),
              testing::AllOf(testing::HasSubstr("weights"), testing::HasSubstr("another content")));
  remove_tree(to);
  copy_tree(scratch / "second", to, progress);
  server.do_late_requests();
  EXPECT_EQ(read_file(to / "weights"), "second content");
}

}  // namespace
}  // namespace hearth::checkpoint
