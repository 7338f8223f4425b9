#include "train/bench_ops.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tiny_run.h"

namespace hearth::train {
namespace {

TEST(BenchOps, EveryKernelOfAStepHasARate) {
  config::BenchStepOptions options;
  options.config = tiny_config(".");
  options.config.data.path.clear();
  options.config.model.vocab_size = 300;
  options.steps = 2;
  options.warmup = 0;
  const OpsTiming t = time_ops(options);
  EXPECT_GT(t.copy_bytes_per_s, 1e8);
  EXPECT_GT(t.gemm_flops, 1e8);
  for (const char* name : {"norm", "rope", "swiglu, backward", "cross-entropy with gradient", "adamw", "attention",
                           "attention, bfloat16, backward", "embedding, backward", "logits, weight gradient",
                           "logits, weight gradient, ATen"}) {
    EXPECT_EQ(std::count_if(t.kernels.begin(), t.kernels.end(), [&](const auto& k) { return k.name == name; }), 1)
        << name;
  }
  for (const KernelTiming& k : t.kernels) {
    EXPECT_GT(k.median_s, 0) << k.name;
    EXPECT_NE(k.bytes > 0, k.flops > 0) << k.name << " is bounded by one of them";
    EXPECT_EQ(k.times_aten > 0, &k != &t.kernels.back() && (&k)[1].name == k.name + ", ATen") << k.name;
  }
}

TEST(BenchOps, RatesAreSharesOfWhatTheMachineCanDo) {
  const OpsTiming t{2e10, 1e11, {{"copying", 0.5, 5e9, 0}, {"multiplying", 0.001, 0, 9e7, 1.25}}};
  const std::string text = format_ops(t);
  EXPECT_NE(text.find("10.0 GB/s      50 % of copy\n"), std::string::npos) << text;
  EXPECT_NE(text.find("90.0 GFLOP/s   90 % of GEMM  1.25x ATen\n"), std::string::npos) << text;
  const auto json = nlohmann::json::parse(ops_json(t));
  EXPECT_EQ(json.at("kernels").size(), 2u);
  EXPECT_EQ(json.at("kernels")[1].at("flops"), 9e7);
  EXPECT_EQ(json.at("kernels")[1].at("times_aten"), 1.25);
  EXPECT_EQ(json.at("gemm_flops"), 1e11);
}

}  // namespace
}  // namespace hearth::train
