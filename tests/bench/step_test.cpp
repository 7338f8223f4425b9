#include "bench/step.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <nlohmann/json.hpp>

#include "plan/parameters.h"
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

TEST(BenchStep, TheNumbersBelongTogether) {
  for (const int64_t ranks : {1, 2}) {
    const config::BenchStepOptions options = tiny_bench(ranks);
    const StepTiming t = time_steps(options);
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
    EXPECT_DOUBLE_EQ(t.mfu, std::min(1.0, t.tokens_per_second * t.flops_per_token / t.gemm_flops));
  }
}

// Faults cost PyTorch a third of its step on a CPU. Ours has only the faults of a few tensors of tokens and results.
TEST(BenchStep, AStepFaultsInHardlyAnyMemory) {
  config::BenchStepOptions options = tiny_bench(1);
  options.warmup = 3;
  options.config.training.seq_len = 256;
  options.config.training.local_batch_size = 8;  // activations of 10 MB and more: thousands of pages
  const StepTiming t = time_steps(options);
  EXPECT_LT(t.page_faults_per_step, 64);
}

TEST(BenchStep, TheEndOfTheFirstStepIsATimeOfDay) {
  const auto now = [] { return static_cast<double>(std::time(nullptr)); };
  const double before = now(), end = time_steps(tiny_bench(1)).first_step_end;
  EXPECT_GE(end, before);
  EXPECT_LE(end, now() + 1);
}

TEST(BenchStep, StepsOfTheWarmUpAreNotCounted) {
  config::BenchStepOptions options = tiny_bench(1);
  options.warmup = 4;
  options.steps = 1;
  const StepTiming t = time_steps(options);
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

}  // namespace
}  // namespace hearth::bench
