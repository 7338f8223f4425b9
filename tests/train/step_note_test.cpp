#include "train/step_note.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace hearth::train {
namespace {

TEST(StepNote, NamesTheLastStepThatAllRanksHaveWritten) {
  const auto agreed = [](int64_t a, int64_t b) {
    return agreed_note({to_text({.counts = {1}, .written_step = a}), to_text({.counts = {1}, .written_step = b})},
                       {0, 1})
        .written_step;
  };
  EXPECT_EQ(agreed(20, 20), 20);
  EXPECT_EQ(agreed(20, 10), 10);
  EXPECT_EQ(agreed(0, 20), 0);
}

TEST(StepNote, OfAllRanksHasTheirSumsFlagsAndSubstitutesInOrder) {
  const StepNote agreed = agreed_note({to_text({.counts = {1e16, 2}, .substitutes = {"a"}}),
                                       to_text({.counts = {-1e16, 3}, .substitutes = {"b", "c"}, .save = true}),
                                       to_text({.counts = {0.25, 1}, .leave = true}), to_text({.counts = {0.5, 0}})},
                                      {0, 1, 2, 3});
  EXPECT_THAT(agreed.counts, testing::ElementsAre(0.75, 6));
  EXPECT_THAT(agreed.substitutes, testing::ElementsAre("a", "b", "c"));
  EXPECT_TRUE(agreed.save);
  EXPECT_TRUE(agreed.leave);
  EXPECT_FALSE(agreed.failed);
}

TEST(StepNote, CountsTheDataOfRanksThatReadTheSameOnce) {
  const std::vector<std::string> texts = {
      to_text({.counts = {1}, .substitutes = {"a"}}), to_text({.counts = {1}, .substitutes = {"a"}}),
      to_text({.counts = {2}, .substitutes = {"b"}}), to_text({.counts = {2}, .substitutes = {"b"}, .leave = true})};
  const StepNote agreed = agreed_note(texts, {0, 2});
  EXPECT_THAT(agreed.counts, testing::ElementsAre(3));
  EXPECT_THAT(agreed.substitutes, testing::ElementsAre("a", "b"));
  EXPECT_TRUE(agreed.leave);
}

TEST(StepNote, KeepsEveryBitOfACount) {
  const std::vector<double> counts = {1.0 / 3, -0.0, 5e-324, std::numeric_limits<double>::infinity(), std::nan("")};
  const StepNote agreed = agreed_note({to_text({.counts = counts})}, {0});
  for (size_t i = 0; i < counts.size(); ++i) EXPECT_EQ(std::signbit(agreed.counts[i]), std::signbit(counts[i])) << i;
  EXPECT_EQ(agreed.counts[0], 1.0 / 3);
  EXPECT_EQ(agreed.counts[2], 5e-324);
  EXPECT_TRUE(std::isinf(agreed.counts[3]));
  EXPECT_TRUE(std::isnan(agreed.counts[4]));
}

TEST(StepNote, OfARankWithoutABatchStopsAll) {
  const StepNote agreed = agreed_note({to_text({.counts = {1, 2}}), to_text({.failed = true})}, {0, 1});
  EXPECT_TRUE(agreed.failed);
}

TEST(StepNote, MayNameAFileWhoseNameIsNotUtf8) {
  const StepNote agreed = agreed_note({to_text({.substitutes = {"shard \xff"}})}, {0});
  EXPECT_THAT(agreed.substitutes.front(), testing::StartsWith("shard "));
}

}  // namespace
}  // namespace hearth::train
