// SPDX-License-Identifier: Apache-2.0
#include "bench/ops.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "plan/run_shape.h"
#include "train/tiny_run.h"

namespace hearth::bench {
namespace {

using testing::HasSubstr;

config::BenchStepOptions tiny_options() {
  config::BenchStepOptions options;
  options.config = train::tiny_config(".");
  options.config.data.path.clear();
  options.config.model.vocab_size = 300;
  options.steps = 1;
  options.warmup = 0;
  return options;
}

TEST(BenchOps, EveryKernelOfAStepHasARate) {
  config::BenchStepOptions options = tiny_options();
  options.steps = 2;
  const OpsTiming t = time_ops(options);
  EXPECT_GT(t.copy_bytes_per_s, 1e8);
  EXPECT_GT(t.gemm_flops, 1e8);
  for (const char* name :
       {"norm", "rope", "swiglu, backward", "cross-entropy with gradient", "adamw", "attention",
        "attention, bfloat16, backward", "embedding, backward", "logits, weight gradient",
        "logits, weight gradient, ATen", "norm, bfloat16, backward", "add and norm, bfloat16", "rope, bfloat16",
        "swiglu, bfloat16, backward", "cross-entropy with gradient, bfloat16", "embedding, bfloat16, backward"}) {
    EXPECT_EQ(std::count_if(t.kernels.begin(), t.kernels.end(), [&](const auto& k) { return k.name == name; }), 1)
        << name;
  }
  for (const KernelTiming& k : t.kernels) {
    EXPECT_GT(k.median_s, 0) << k.name;
    EXPECT_NE(k.bytes > 0, k.flops > 0) << k.name << " is bounded by one of them";
    EXPECT_EQ(k.times_aten > 0, &k != &t.kernels.back() && (&k)[1].name == k.name + ", ATen") << k.name;
  }
}

// By hand: the least bytes that each kernel reads and writes.
TEST(BenchOps, BytesAreThoseOfEachOperandInItsType) {
  config::BenchStepOptions options = tiny_options();
  options.config.model.norm_type = config::NormType::kLayerNorm;
  options.config.memory.loss_chunk_tokens = 7;
  const OpsTiming t = time_ops(options);
  const auto bytes = [&](const std::string& name) {
    const auto found = std::find_if(t.kernels.begin(), t.kernels.end(), [&](const auto& k) { return k.name == name; });
    return found == t.kernels.end() ? -1 : static_cast<int64_t>(found->bytes);
  };
  const plan::ModelShape s = plan::model_shape(options.config, plan::DataFacts{.vocab_size = 300});
  const int64_t S = options.config.training.seq_len, T = options.config.training.local_batch_size * S;
  const int64_t D = s.D, F = s.F(), N = plan::parameter_plan(s).num_parameters;
  for (const int64_t e : {4, 2}) {  // bytes of an element
    const std::string type = e == 2 ? ", bfloat16" : "";
    EXPECT_EQ(bytes("norm" + type), e * (2 * T * D + D) + 4 * 2 * T);
    EXPECT_EQ(bytes("add and norm" + type), e * (4 * T * D + D) + 4 * 2 * T);
    EXPECT_EQ(bytes("norm" + type + ", backward"), e * (4 * T * D + D) + 4 * 2 * T + 4 * 2 * D);
    EXPECT_EQ(bytes("rope" + type), e * 2 * T * (s.H + s.G) * s.K + 4 * S * s.K) << "angles are float32";
    EXPECT_EQ(bytes("swiglu" + type), e * 3 * T * F);
    EXPECT_EQ(bytes("swiglu" + type + ", backward"), e * 5 * T * F);
    EXPECT_EQ(bytes("embedding" + type), e * 2 * T * D + 4 * T);
    EXPECT_EQ(bytes("embedding" + type + ", backward"), e * T * D + 4 * 2 * T * D + 4 * T);
    EXPECT_EQ(bytes("cross-entropy" + type), e * 7 * 300 + 4 * 7);
    EXPECT_EQ(bytes("cross-entropy with gradient" + type), e * 2 * 7 * 300 + 4 * 7);
  }
  EXPECT_EQ(bytes("sum of squares"), 4 * N);
  // A gradient is read; weights and two moments are read and written.
  EXPECT_EQ(bytes("adamw"), (4 + 2 * 4 + 4 * 4) * N);
  EXPECT_EQ(bytes("adamw with a bfloat16 copy"), (4 + 2 * 4 + 4 * 4 + 2) * N);
  EXPECT_EQ(bytes("adamw, bfloat16 moments"), (4 + 2 * 4 + 4 * 2) * N);
  EXPECT_EQ(bytes("adamw, bfloat16 weights"), (4 + 2 * 2 + 4 * 4) * N);
  EXPECT_EQ(bytes("adamw, bfloat16 weights, stochastic"), (4 + 2 * 2 + 4 * 4) * N);
  EXPECT_EQ(bytes("adamw, bfloat16 both"), (4 + 2 * 2 + 4 * 2) * N);
  EXPECT_EQ(bytes("adamw, bfloat16 both, stochastic"), (4 + 2 * 2 + 4 * 2) * N);
  EXPECT_EQ(bytes("cast, float32 to bfloat16"), 6 * N);
  EXPECT_EQ(bytes("cast, bfloat16 to float32"), 6 * N);
}

TEST(BenchOps, EveryNormIsTimed) {
  config::BenchStepOptions options = tiny_options();
  for (const auto type : {config::NormType::kRmsNorm, config::NormType::kNpLayerNorm, config::NormType::kRmsNormNeox}) {
    options.config.model.norm_type = type;
    EXPECT_GT(time_ops(options).kernels.size(), 20u) << name_of(type);
  }
}

TEST(BenchOps, RatesAreSharesOfWhatTheMachineCanDo) {
  const OpsTiming t{2e10, 1e11, {{"copying", 0.5, 5e9, 0}, {"multiplying", 0.001, 0, 9e7, 1.25}}};
  const std::string text = format_ops(t);
  EXPECT_THAT(text, HasSubstr("10.0 GB/s      50 % of copy\n")) << text;
  EXPECT_THAT(text, HasSubstr("90.0 GFLOP/s   90 % of GEMM  1.25x ATen\n")) << text;
  const auto json = nlohmann::json::parse(ops_json(t));
  EXPECT_EQ(json.at("kernels").size(), 2u);
  EXPECT_EQ(json.at("kernels")[1].at("flops"), 9e7);
  EXPECT_EQ(json.at("kernels")[1].at("times_aten"), 1.25);
  EXPECT_EQ(json.at("gemm_flops"), 1e11);
}

}  // namespace
}  // namespace hearth::bench
