// SPDX-License-Identifier: Apache-2.0
#include "bench/step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>
#include <nlohmann/json.hpp>

#include "comm/ranks.h"
#include "plan/parameters.h"
#include "support/errors.h"
#include "support/hearth_command.h"
#include "train/tiny_run.h"

namespace hearth::bench {
namespace {

config::BenchStepOptions tiny_bench(int64_t ranks) {
  config::BenchStepOptions options;
  options.config = train::tiny_config(".");
  options.config.data.path.clear();
  options.config.model.vocab_size = 300;
  options.config.parallelism.data_parallel_shard_degree = ranks;
  options.steps = 5;
  options.warmup = 1;
  return options;
}

// Rank 0's times.
StepTiming timed(const config::BenchStepOptions& options) {
  StepTiming timing;
  comm::run_ranks(options.config.parallelism.ranks(), 60, [&](comm::Group& group) {
    const StepTiming mine = time_steps(options, group);
    if (group.rank() == 0) timing = mine;
  });
  return timing;
}

TEST(BenchStep, TheNumbersBelongTogether) {
  for (const int64_t ranks : {1, 2}) {
    const config::BenchStepOptions options = tiny_bench(ranks);
    const StepTiming t = timed(options);
    const plan::ModelShape shape = plan::model_shape(options.config.model, 0);
    EXPECT_EQ(t.parameters, plan::parameter_plan(shape).num_parameters);
    EXPECT_EQ(t.tokens_per_step, 8 * 32) << "the global batch, whatever the number of ranks";
    EXPECT_DOUBLE_EQ(t.flops_per_token, plan::flops_per_token(shape, 32));
    EXPECT_LT(t.fastest_step_s, t.median_step_s) << "five steps never take the same nanoseconds";
    EXPECT_LT(t.median_step_s, t.slowest_step_s);
    EXPECT_GT(t.forward_backward_s, 0);
    EXPECT_GT(t.norm_s, 0);
    EXPECT_GT(t.update_s, 0);
    EXPECT_NE(t.norm_s, t.update_s);
    EXPECT_GT(t.memory_bytes, 1 << 20);
    EXPECT_DOUBLE_EQ(t.tokens_per_second, 256 / t.median_step_s);
    EXPECT_DOUBLE_EQ(t.mfu, t.tokens_per_second * t.flops_per_token / t.gemm_flops);
    EXPECT_LE(t.mfu, 1) << "a share that cannot be is not shown";
  }
}

// Faults cost PyTorch a third of its step on a CPU. Ours has only the faults of a few tensors of tokens and results.
TEST(BenchStep, AStepFaultsInHardlyAnyMemory) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the sanitizer's allocator keeps freed memory and takes new memory";
#endif
  config::BenchStepOptions options = tiny_bench(1);
  options.warmup = 3;
  options.config.training.seq_len = 256;
  options.config.training.local_batch_size = 8;  // activations of 10 MB and more: thousands of pages
  const StepTiming t = timed(options);
  EXPECT_LT(t.page_faults_per_step, 64);
}

TEST(BenchStep, TheEndOfTheFirstStepIsATimeOfDay) {
  const auto now = [] { return static_cast<double>(std::time(nullptr)); };
  const double before = now(), end = timed(tiny_bench(1)).first_step_end;
  EXPECT_GE(end, before);
  EXPECT_LE(end, now() + 1);
}

TEST(BenchStep, StepsOfTheWarmUpAreNotCounted) {
  config::BenchStepOptions options = tiny_bench(1);
  options.warmup = 4;
  options.steps = 1;
  const StepTiming t = timed(options);
  EXPECT_EQ(t.fastest_step_s, t.slowest_step_s);
}

TEST(BenchStep, TheJsonHasEveryNumber) {
  StepTiming t;
  t.tokens_per_second = 1234.5;
  t.gemm_flops = 2e11;
  const auto json = nlohmann::json::parse(timing_json(t));
  EXPECT_EQ(json.size(), 16u);
  EXPECT_EQ(json.at("tokens_per_second"), 1234.5);
  EXPECT_EQ(json.at("gemm_flops"), 2e11);
}

// As a user starts it: the ranks are processes, and the group is the run's. What stands for NCCL ends one of them.
TEST(BenchStep, StartsTheProcessesAndTheGroupOfARun) {
  const std::string command =
      "bench step --dim 32 --n-layers 2 --n-heads 2 --n-kv-heads 2 --vocab-size 40 --seq-len 16 --local-batch-size 2 "
      "--steps 2 --warmup 1 --threads 2 --json --set parallelism.data_parallel_shard_degree=2 --set comm.backend=nccl "
      "--set comm.nccl_library=" HEARTH_BUILD_DIR "/tests/libhearth_fake_nccl.so";
  const test::CommandResult result = test::run_hearth(command);
  ASSERT_EQ(result.exit_code, 0) << result.output;
  const auto json = nlohmann::json::parse(result.output);
  EXPECT_GT(json.at("median_step_s").get<double>(), 0);
  const test::CommandResult killed = test::run_hearth(command, "HEARTH_FAKE_NCCL_DIE=1:5");
  EXPECT_EQ(killed.exit_code, 4);
  EXPECT_THAT(killed.output, testing::HasSubstr("rank 1"));
}

TEST(BenchStep, OfALaunchersRanksRefusesAnotherLayout) {
  comm::run_ranks(2, 60, [](comm::Group& group) {
    const Error error = test::error_of([&] { run_bench_step(tiny_bench(3), group); });
    EXPECT_THAT(error.what(), testing::HasSubstr("2 ranks started, and the layout has 3"));
    EXPECT_EQ(error.code(), ExitCode::kUser);
  });
}

}  // namespace
}  // namespace hearth::bench
