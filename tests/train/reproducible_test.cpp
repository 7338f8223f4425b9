// SPDX-License-Identifier: Apache-2.0
// numerics.reproducible: the same bits for any number of ranks, any stage of ZeRO, and HSDP.
#include <gtest/gtest.h>

#include "ops/cpu/gemm.h"
#include "tiny_run.h"

namespace hearth::train {
namespace {

struct Reproducible : TinyData {
  // 24 micro-batches: three blocks of eight, each added in pairs.
  config::RunConfig config(int64_t ranks, const std::string& folder) const {
    config::RunConfig c = tiny_config(scratch);
    c.job.dump_folder = folder;
    c.parallelism.data_parallel_shard_degree = ranks;
    c.training.threads = ranks;
    c.training.local_batch_size = 1;
    c.training.global_batch_size = 24;
    c.training.steps = 6;
    c.numerics.reproducible = true;
    return c;
  }
};

TEST_F(Reproducible, OneTwoFourAndEightRanksTrainToTheSameBits) {
  const config::RunConfig one = config(1, "ranks-1");
  const auto records = train(one);
  const auto tensors = tensors_of(step_of(one, 6));
  for (const int64_t ranks : {2, 4, 8}) {
    const config::RunConfig several = config(ranks, fmt::format("ranks-{}", ranks));
    expect_same_training(train(several), records);
    EXPECT_EQ(tensors_of(step_of(several, 6)), tensors) << ranks;
  }
}

TEST_F(Reproducible, EveryStageOfZeroAndHsdpTrainToTheSameBits) {
  config::RunConfig one = config(1, "ranks-1");
  one.model.n_layers = 4;  // more than there are slots
  const auto records = train(one);
  const auto tensors = tensors_of(step_of(one, 6));
  struct Layout {
    int64_t replicas, shards, stage;
  };
  for (const Layout& of :
       {Layout{1, 1, 3}, {1, 2, 2}, {1, 2, 3}, {1, 8, 2}, {1, 8, 3}, {2, 2, 1}, {2, 2, 2}, {2, 2, 3}, {4, 1, 3}}) {
    const std::string name = fmt::format("{}x{}-stage-{}", of.replicas, of.shards, of.stage);
    config::RunConfig c = one;
    c.job.dump_folder = name;
    c.parallelism = {of.replicas, of.shards, of.stage};
    c.training.threads = c.parallelism.ranks();
    expect_same_training(train(c), records);
    EXPECT_EQ(tensors_of(step_of(c, 6)), tensors) << name;
  }
}

// Ranks own parts of matrices, and share the whole ones by cost; more ranks than a block has matrices, too.
TEST_F(Reproducible, MuonTrainsToTheSameBitsOnEveryLayout) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    config::RunConfig one = config(1, fmt::format("one-{}", dtype_name(dtype)));
    one.optimizer.name = config::OptimizerName::kMuon;
    one.training.mixed_precision_param = dtype;
    one.checkpoint.freeze = {"layers.1.attention.wk.weight"};
    const auto records = train(one);
    const auto tensors = tensors_of(step_of(one, 6));
    for (const config::Parallelism& layout :
         {config::Parallelism{1, 2, 1}, {1, 4, 2}, {1, 8, 3}, {2, 2, 3}, {4, 1, 1}}) {
      config::RunConfig c = one;
      c.job.dump_folder = fmt::format("{}x{}-{}-{}", layout.data_parallel_replicate_degree,
                                      layout.data_parallel_shard_degree, layout.zero_stage, dtype_name(dtype));
      c.parallelism = layout;
      c.training.threads = layout.ranks();
      expect_same_training(train(c), records);
      EXPECT_EQ(tensors_of(step_of(c, 6)), tensors) << c.job.dump_folder;
    }
  }
}

TEST_F(Reproducible, InBfloat16WithRoundingAtRandomToo) {
  config::RunConfig one = config(1, "ranks-1");
  one.training.mixed_precision_param = one.training.dtype = DType::kBFloat16;
  one.numerics.stochastic_rounding = true;
  const auto records = train(one);
  config::RunConfig four = one;
  four.job.dump_folder = "ranks-4";
  four.parallelism.data_parallel_shard_degree = four.training.threads = 4;
  expect_same_training(train(four), records);
  EXPECT_EQ(tensors_of(step_of(four, 6)), tensors_of(step_of(one, 6)));
  four.job.dump_folder = "hsdp";
  four.parallelism = {2, 2, 3};
  expect_same_training(train(four), records);
  EXPECT_EQ(tensors_of(step_of(four, 6)), tensors_of(step_of(one, 6)));
}

TEST_F(Reproducible, WithoutItTheOrderOfSumsShowsInTheLastBits) {
  config::RunConfig one = config(1, "ranks-1"), four = config(4, "ranks-4");
  one.numerics.reproducible = four.numerics.reproducible = false;
  train(one);
  train(four);
  EXPECT_NE(tensors_of(step_of(one, 6)), tensors_of(step_of(four, 6))) << "the tests above would show nothing";
}

// Wide enough for two threads to share the work of every kernel.
TEST_F(Reproducible, OneThreadAndTwoTrainToTheSameBitsWhereProductsAreOurOwn) {
  if (!ops::gemm_is_preferred<float>()) GTEST_SKIP() << "float32 products are ATen's on this CPU";
  config::RunConfig one = tiny_config(scratch);
  one.model.dim = 256;
  one.training.seq_len = 256;
  one.training.local_batch_size = 4;
  one.training.steps = 3;
  one.training.threads = 1;
  one.job.dump_folder = "threads-1";
  config::RunConfig two = one;
  two.training.threads = 2;
  two.job.dump_folder = "threads-2";
  expect_same_training(train(two), train(one));
  EXPECT_EQ(tensors_of(step_of(two, 3)), tensors_of(step_of(one, 3)));
}

TEST_F(Reproducible, TheSameRunTwiceIsTheSameBitForBitAnyway) {
  for (const int64_t ranks : {1, 2}) {
    config::RunConfig a = tiny_config(scratch), b = a;
    a.parallelism.data_parallel_shard_degree = b.parallelism.data_parallel_shard_degree = ranks;
    a.training.threads = b.training.threads = 2;
    a.job.dump_folder = fmt::format("a-{}", ranks);
    b.job.dump_folder = fmt::format("b-{}", ranks);
    expect_same_training(train(a), train(b));
    EXPECT_EQ(tensors_of(step_of(a, 12)), tensors_of(step_of(b, 12)));
  }
}

}  // namespace
}  // namespace hearth::train
