// SPDX-License-Identifier: Apache-2.0
// checkpoint.interval_epochs: the steps with a checkpoint follow from the samples that were used.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/retain.h"
#include "data/shard/dataset.h"
#include "tiny_run.h"
#include "train/save_times.h"

namespace hearth::train {
namespace {

using testing::ElementsAre;

config::RunConfig by_epochs(const Path& folder, const std::string& name, double epochs) {
  config::RunConfig c = tiny_config(folder);
  c.job.dump_folder = name;
  c.checkpoint.interval = 0;
  c.checkpoint.interval_epochs = epochs;
  c.checkpoint.keep_latest_k = 0;
  return c;
}

std::vector<int64_t> saved_by(const config::RunConfig& c) { return checkpoint::list_steps(c.checkpoint_folder()); }

// Sequences in an epoch: windows of 33 tokens that start every 32, the last one as short as 2.
int64_t windows_of(const Path& folder) {
  const int64_t tokens = data::Dataset::open(folder).split("train").tokens();
  return (tokens - 1 + 31) / 32;
}

// Steps of 8 sequences that end a tenth of an epoch of `windows` sequences, in whole numbers, and the last step.
std::vector<int64_t> tenths(int64_t windows, int64_t steps) {
  std::vector<int64_t> ends;
  for (int64_t k = 1; k * windows <= 10 * 8 * steps; ++k) {
    const int64_t step = (k * windows + 79) / 80;
    if (ends.empty() || ends.back() != step) ends.push_back(step);
  }
  if (ends.back() != steps) ends.push_back(steps);
  return ends;
}

struct EpochSaves : TinyData {};

TEST_F(EpochSaves, EachTenthOfAnEpochEndsWithACheckpointAlsoAcrossResumesWithOtherRanks) {
  const int64_t windows = windows_of(scratch / "data");
  ASSERT_NE(windows % 80, 0) << "some parts should end within a step";
  const int64_t steps = windows / 8 + 12;  // into the second epoch
  config::RunConfig whole = by_epochs(scratch, "whole", 0.1);
  whole.training.steps = steps;
  train(whole);
  EXPECT_EQ(saved_by(whole), tenths(windows, steps));

  // Each part of the run ends with a checkpoint of its own, which changes none of the others.
  config::RunConfig parts = by_epochs(scratch, "parts", 0.1);
  std::vector<int64_t> expected = saved_by(whole);
  int64_t ranks = 1;
  for (const int64_t end : {int64_t{3}, expected[2], expected[4] + 1, steps}) {
    parts.training.steps = end;
    parts.parallelism.data_parallel_shard_degree = ranks;
    ranks = ranks == 4 ? 1 : 2 * ranks;
    train(parts);
    expected.push_back(end);
  }
  std::sort(expected.begin(), expected.end());
  expected.erase(std::unique(expected.begin(), expected.end()), expected.end());
  EXPECT_EQ(saved_by(parts), expected);
}

TEST_F(EpochSaves, AnEpochOfAMixtureHasTheWindowsOfAllSources) {
  build_tiny_data(scratch / "books", 500);
  config::RunConfig c = by_epochs(scratch, "mixed", 0.1);
  c.data.path.clear();
  c.data.source = {{"data", 3, 0}, {"books/data", 1, 0}};
  c.training.steps = 40;
  train(c);
  EXPECT_EQ(saved_by(c), tenths(windows_of(scratch / "data") + windows_of(scratch / "books" / "data"), 40));

  // The last step of a length in epochs ends an epoch.
  c = by_epochs(scratch, "once", 1);
  c.training.steps = 0;
  c.training.epochs = 1;
  train(c);
  EXPECT_THAT(saved_by(c), ElementsAre((windows_of(scratch / "data") + 7) / 8));
}

TEST(SaveTimes, PartsEndAtWholeSamplesAndAStepMayEndSeveralParts) {
  config::RunConfig c;
  c.checkpoint.interval = 0;
  c.checkpoint.interval_epochs = 0.1;
  const SaveTimes times(c, 10);  // a part is one sample
  for (uint64_t sample = 0; sample < 1000; ++sample) EXPECT_TRUE(times.after(1, sample, sample + 1)) << sample;
  EXPECT_FALSE(times.after(1, 5, 5));
  EXPECT_TRUE(times.after(1, 5, 9));

  const SaveTimes longer(c, 100);  // a part is ten samples
  EXPECT_FALSE(longer.after(1, 0, 9));
  EXPECT_TRUE(longer.after(1, 2, 10));
  EXPECT_FALSE(longer.after(1, 10, 19));
  // The training went back from a step with samples 10 to 29, to a checkpoint at 10, and its next step has 30 to 39.
  EXPECT_TRUE(longer.after(1, 10, 39));
  c.checkpoint.interval_epochs = 1.1;  // 1.1 * 100 is 110.00000000000001 in binary
  EXPECT_TRUE(SaveTimes(c, 100).after(1, 109, 110));
  EXPECT_FALSE(SaveTimes(c, 100).after(1, 110, 219));
  EXPECT_FALSE(SaveTimes(config::RunConfig{}, 100).after(3, 0, 100)) << "interval_epochs is off";
  c.checkpoint.interval_epochs = 1e-300;
  EXPECT_TRUE(SaveTimes(c, 100).after(1, 0, 1)) << "less than a sample: every step";
  c.checkpoint.interval = 4;
  c.checkpoint.extra_steps = {7};
  c.checkpoint.interval_epochs = 0;
  for (int64_t t = 1; t <= 8; ++t) EXPECT_EQ(SaveTimes(c, 100).after(t, 0, 1), t == 4 || t == 7 || t == 8) << t;
}

}  // namespace
}  // namespace hearth::train
