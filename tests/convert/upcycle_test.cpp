// SPDX-License-Identifier: Apache-2.0
// What `hearth convert --upcycle` refuses. tests/infer/proof_test.cpp has what it makes.
#include "foreign.h"

namespace hearth::convert {
namespace {

using testing::HasSubstr;

TEST(Upcycling, OfWhatCannotBecomeAMixtureIsRefused) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  foreign("make " + scratch.path().string() + "/f L=2");
  const auto refusal = [&](const std::string& words) {
    return refused(fmt::format("{0} {1}/f/hf {1}/out", words, scratch.path().string()), 2);
  };
  EXPECT_THAT(refusal("--to hf --upcycle 4"), HasSubstr("--upcycle does not go with --to hf"));
  EXPECT_THAT(refusal("--to native --upcycle 4 --moe-top-k 5"), HasSubstr("--upcycle 4 with --moe-top-k 5"));
  for (const char* experts : {"0", "1", "-3"})
    EXPECT_THAT(refusal(fmt::format("--to native --upcycle {}", experts)),
                HasSubstr("--upcycle " + std::string(experts)));
  EXPECT_THAT(refusal("--to native --moe-top-k 2"), HasSubstr("--moe-top-k is for --upcycle"));
}

}  // namespace
}  // namespace hearth::convert
