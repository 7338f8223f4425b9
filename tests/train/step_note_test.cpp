// SPDX-License-Identifier: Apache-2.0
#include "train/step_note.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "comm/buffers.h"

namespace hearth::train {
namespace {

// The notes of ranks, in order, as one. `data_indices`: of each rank; by default all read different data.
StepNote agreed(const std::vector<StepNote>& notes, std::vector<std::optional<int64_t>> data_indices = {}) {
  int64_t data_ranks = 0;
  std::string merged;
  for (size_t r = 0; r < notes.size(); ++r) {
    const std::optional<int64_t> index =
        data_indices.empty() ? std::optional(static_cast<int64_t>(r)) : data_indices[r];
    data_ranks += index ? 1 : 0;
    const std::string bytes = to_bytes(notes[r], index);
    if (r == 0) {
      merged = bytes;
    } else {
      merge_step_notes(merged, bytes);
    }
  }
  return agreed_note(merged, data_ranks);
}

TEST(StepNote, NamesTheLastStepThatAllRanksHaveWritten) {
  const auto written = [](int64_t a, int64_t b) {
    return agreed({{.counts = {1}, .written_step = a}, {.counts = {1}, .written_step = b}}).written_step;
  };
  EXPECT_EQ(written(20, 20), 20);
  EXPECT_EQ(written(20, 10), 10);
  EXPECT_EQ(written(0, 20), 0);
}

TEST(StepNote, OfAllRanksHasTheirSumsFlagsAndSubstitutesInOrder) {
  const StepNote all = agreed({{.counts = {1e16, 2}, .substitutes = {"a"}},
                               {.counts = {-1e16, 3}, .substitutes = {"b", "c"}, .save = true},
                               {.counts = {0.25, 1}, .leave = true},
                               {.counts = {0.5, 0}}});
  EXPECT_THAT(all.counts, testing::ElementsAre(0.75, 6));
  EXPECT_THAT(all.substitutes, testing::ElementsAre("a", "b", "c"));
  EXPECT_TRUE(all.save);
  EXPECT_TRUE(all.leave);
  EXPECT_FALSE(all.failed);
}

TEST(StepNote, CountsTheDataOfRanksThatReadTheSameOnce) {
  const StepNote all = agreed({{.counts = {1}, .substitutes = {"a"}},
                               {.counts = {1}, .substitutes = {"a"}},
                               {.counts = {2}, .substitutes = {"b"}},
                               {.counts = {2}, .substitutes = {"b"}, .leave = true}},
                              {0, std::nullopt, 1, std::nullopt});
  EXPECT_THAT(all.counts, testing::ElementsAre(3));
  EXPECT_THAT(all.substitutes, testing::ElementsAre("a", "b"));
  EXPECT_TRUE(all.leave);
}

TEST(StepNote, KeepsEveryBitOfACount) {
  const std::vector<double> counts = {1.0 / 3, -0.0, 5e-324, std::numeric_limits<double>::infinity(), std::nan("")};
  const StepNote all = agreed({{.counts = counts}});
  for (size_t i = 0; i < counts.size(); ++i) EXPECT_EQ(std::signbit(all.counts[i]), std::signbit(counts[i])) << i;
  EXPECT_EQ(all.counts[0], 1.0 / 3);
  EXPECT_EQ(all.counts[2], 5e-324);
  EXPECT_TRUE(std::isinf(all.counts[3]));
  EXPECT_TRUE(std::isnan(all.counts[4]));
}

TEST(StepNote, OfARankWithoutABatchStopsAll) {
  const StepNote all = agreed({{.counts = {1, 2}, .substitutes = {"a"}}, {.failed = true}, {.counts = {1, 2}}});
  EXPECT_TRUE(all.failed);
  EXPECT_THAT(all.substitutes, testing::ElementsAre("a"));
}

TEST(StepNote, MayNameAFileWhoseNameIsNotUtf8) {
  const StepNote all = agreed({{.substitutes = {"shard \xff"}}});
  EXPECT_THAT(all.substitutes, testing::ElementsAre("shard \xff"));
}

// The bits are those of sums in pairs over all ranks (comm/buffers.h), whichever neighbours meet first.
TEST(StepNote, OfManyRanksHasTheBitsOfSumsInPairsInAnyGrouping) {
  std::mt19937_64 random(3);
  std::uniform_real_distribution<double> value(-1e3, 1e3);
  for (const int64_t ranks : {1, 2, 3, 5, 7, 8, 13, 64, 100, 257}) {
    std::vector<double> values;
    std::vector<std::string> notes;
    for (int64_t r = 0; r < ranks; ++r) {
      values.push_back(value(random));
      notes.push_back(to_bytes({.counts = {values.back()}, .written_step = 1000 - r}, r));
    }
    const double expected = comm::sum_in_pairs(values);
    while (notes.size() > 1) {
      const size_t i = random() % (notes.size() - 1);
      merge_step_notes(notes[i], notes[i + 1]);
      notes.erase(notes.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    }
    const StepNote all = agreed_note(notes.front(), ranks);
    EXPECT_EQ(all.counts, std::vector<double>{expected}) << ranks;
    EXPECT_EQ(all.written_step, 1001 - ranks);
    EXPECT_LT(notes.front().size(), 300U) << ranks;
  }
}

}  // namespace
}  // namespace hearth::train
