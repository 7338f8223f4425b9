// SPDX-License-Identifier: Apache-2.0
// gpt-oss over ranks: sinks of the heads that a rank has, biases that one of several ranks adds, windows, and experts
// on ranks of their own.
#include "layouts.h"

namespace hearth::test {
namespace {

using GptOssLayouts = ExpertLayouts;

// Behind a dense layer with the same activation and biases.
config::RunConfig gpt_oss_run(const std::string& name) {
  config::RunConfig run = GptOssLayouts::expert_run(DType::kFloat64, 3, name);
  GptOssLayouts::be_as_qwen(run.model);
  run.model.qk_norm = false;
  config::apply(config::find_family("gpt_oss"), run.model);
  run.model.sliding_window = 8;
  run.model.full_attention_interval = 2;
  run.model.rope_type = config::RopeType::kYarn;
  run.model.rope_scaling_factor = 8;
  run.model.rope_original_seq_len = 8;
  run.model.rope_truncate = false;
  run.optimizer.lr = 0.02;  // biases begin at zero: they must be large in the next step
  return run;
}

// Without it, biases of zero would hide that several ranks add them.
TEST_F(GptOssLayouts, BiasesAndSinksLearn) {
  const Result one = result_of(gpt_oss_run("gpt-oss-learns"));
  for (const char* name : {"layers.1.moe.experts.0.w1.bias", "layers.1.moe.experts.0.w2.bias",
                           "layers.1.moe.experts.0.w3.bias", "layers.1.moe.router.gate.bias",
                           "layers.0.attention.sinks", "layers.0.attention.wo.bias", "layers.0.feed_forward.w2.bias"}) {
    const std::vector<std::byte>& bytes = one.tensors.at(name);
    std::vector<double> values(bytes.size() / sizeof(double));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    const double most =
        *std::max_element(values.begin(), values.end(), [](double a, double b) { return std::abs(a) < std::abs(b); });
    EXPECT_GT(std::abs(most), 1e-3) << name;
  }
}

TEST_F(GptOssLayouts, TrainAsOneRankDoes) {
  expect_as_one_rank(
      gpt_oss_run("gpt-oss"),
      {{"tp2", {.tensor_parallel_degree = 2}},
       {"tp4", {.tensor_parallel_degree = 4}},
       {"cp2", {.context_parallel_degree = 2}},
       {"cp16", {.context_parallel_degree = 16}},  // two groups gather keys
       {"tp2_cp2", {.context_parallel_degree = 2, .tensor_parallel_degree = 2}},
       {"tp2_dp2_zero3", {.data_parallel_shard_degree = 2, .zero_stage = 3, .tensor_parallel_degree = 2}},
       {"pp2_zero_bubble", {.pipeline_parallel_degree = 2, .pipeline_parallel_schedule = kInterleavedZeroBubble}},
       {"ep2", {.data_parallel_shard_degree = 2, .expert_parallel_degree = 2}},
       {"ep4_dp4_zero3", {.data_parallel_shard_degree = 4, .zero_stage = 3, .expert_parallel_degree = 4}},
       {"ep2_tp2", {.tensor_parallel_degree = 2, .expert_parallel_degree = 2}},
       {"ep2_cp2", {.context_parallel_degree = 2, .expert_parallel_degree = 2}},
       {"ep2_tp2_pp2_zero_bubble",
        {.tensor_parallel_degree = 2,
         .pipeline_parallel_degree = 2,
         .expert_parallel_degree = 2,
         .pipeline_parallel_schedule = kInterleavedZeroBubble}}});
}

}  // namespace
}  // namespace hearth::test
