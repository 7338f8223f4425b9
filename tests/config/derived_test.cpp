// SPDX-License-Identifier: Apache-2.0
#include "config/derived.h"

#include <gtest/gtest.h>

namespace hearth::config {
namespace {

RunConfig batches(int64_t local, int64_t ranks, int64_t global) {
  RunConfig config;
  config.training.local_batch_size = local;
  config.training.global_batch_size = global;
  config.parallelism.data_parallel_shard_degree = ranks;
  config.training.seq_len = 100;
  return config;
}

TEST(Derived, TheGlobalBatchStaysTheSameWhateverTheNumberOfRanks) {
  for (const int64_t ranks : {1, 2, 4}) {
    const RunConfig config = batches(2, ranks, 16);
    EXPECT_EQ(global_batch_size(config), 16);
    EXPECT_EQ(accumulation_steps(config), 8 / ranks);
    EXPECT_EQ(tokens_per_step(config), 1600);
  }
}

TEST(Derived, WithoutAGlobalBatchEachRankComputesOnce) {
  const RunConfig config = batches(2, 4, -1);
  EXPECT_EQ(global_batch_size(config), 8);
  EXPECT_EQ(accumulation_steps(config), 1);
}

TEST(Derived, LengthsInTokensAndEpochsAreRoundedUpToWholeSteps) {
  RunConfig config = batches(2, 1, 10);  // 1000 tokens a step
  config.training.steps = 7;
  EXPECT_EQ(total_steps(config, 0), 7);
  config.training.steps = 0;
  config.training.tokens = 2000;
  EXPECT_EQ(total_steps(config, 0), 2);
  config.training.tokens = 2001;
  EXPECT_EQ(total_steps(config, 0), 3);
  config.training.tokens = 0;
  config.training.epochs = 2;
  EXPECT_EQ(total_steps(config, 45), 9);
  EXPECT_EQ(total_steps(config, 46), 10);  // 9.2
  config.training.epochs = 1.1;
  EXPECT_EQ(total_steps(config, 100), 11);  // 1.1 * 100 is 110.00000000000001 in binary
  EXPECT_EQ(total_steps(config, 1), 1);
}

}  // namespace
}  // namespace hearth::config
