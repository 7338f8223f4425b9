// SPDX-License-Identifier: Apache-2.0
// Every request of a save with every fault; minutes.
#include <gtest/gtest.h>

#include "late_requests.h"
#include "saves.h"

namespace hearth::checkpoint {
namespace {

TEST(StoredCheckpointSlow, IsWholeOrAbsentAfterEveryFaultOfEveryRequest) {
  HEARTH_NEEDS_STORE();
  with_faults_at_every_request({"500", "503", "reset", "hang", "cut", "lost", "flip", "rflip"}, 1);
}

TEST(StoredCheckpointSlow, IsWholeAfterEveryRequestThatIsDoneTwiceOrLateOrHasNoAnswer) {
  HEARTH_NEEDS_STORE();
  with_every_request_twice_late_or_lost(1);
}

}  // namespace
}  // namespace hearth::checkpoint
