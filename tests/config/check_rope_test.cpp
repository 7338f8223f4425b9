// SPDX-License-Identifier: Apache-2.0
// The rules for keys of rotary embedding.
#include <gtest/gtest.h>

#include <algorithm>

#include "config/check.h"
#include "problems.h"

namespace hearth::config {
namespace {

TEST(CheckRope, TheKeysOfAScalingGoWithItsType) {
  const std::vector<std::string> yarn = {"model.rope_type=yarn", "model.rope_scaling_factor=8"};
  const auto with = [](std::vector<std::string> keys, const std::vector<std::string>& more) {
    keys.insert(keys.end(), more.begin(), more.end());
    return problems(keys);
  };
  EXPECT_TRUE(with(yarn, {"model.rope_beta_fast=16", "model.rope_truncate=false"}).empty());
  EXPECT_EQ(with(yarn, {"model.rope_beta_fast=1"}),
            one("model.rope_beta_fast = 1 is not above model.rope_beta_slow = 1"));
  EXPECT_EQ(with(yarn, {"model.rope_low_freq_factor=2"}),
            one("model.rope_low_freq_factor = 2.0 has no effect with model.rope_type = \"yarn\""));
  EXPECT_EQ(with(yarn, {"model.rope_theta=1"}),
            one("model.rope_theta = 1 does not go with model.rope_type = \"yarn\""));
  EXPECT_EQ(problems({"model.rope_beta_fast=16"}),
            one("model.rope_beta_fast = 16.0 has no effect with model.rope_type = \"llama3\""));
  EXPECT_EQ(problems({"model.rope_type=linear"}),
            one("model.rope_type = \"linear\" has no effect with model.rope_scaling_factor = 1"));
  EXPECT_EQ(problems({"model.rope_type=linear", "model.rope_scaling_factor=2", "model.rope_original_seq_len=4"}),
            one("model.rope_original_seq_len = 4 has no effect with model.rope_type = \"linear\""));
  EXPECT_TRUE(problems({"model.rope_type=default"}).empty());
  EXPECT_EQ(problems({"model.rope_type=default", "model.rope_scaling_factor=2"}),
            one("model.rope_scaling_factor = 2.0 has no effect with model.rope_type = \"default\""));
  const std::vector<std::string> longrope = {"model.dim=16", "model.n_heads=2", "model.rope_type=longrope",
                                             "model.rope_scaling_factor=2", "model.rope_short_factor=[1,1,1,1]"};
  EXPECT_TRUE(with(longrope, {"model.rope_long_factor=[1,2,3,4]"}).empty());
  EXPECT_EQ(with(longrope, {"model.rope_long_factor=[1,2,3]"}),
            one("model.rope_long_factor has 3 factors, and 4 pairs of a head rotate"));
  EXPECT_EQ(with(longrope, {"model.rope_long_factor=[1,2,3,4]", "model.rope_original_seq_len=1"}),
            one("model.rope_original_seq_len = 1 does not go with model.rope_type = \"longrope\""));
}

TEST(CheckRope, SamplesOverPaddedRowsDoNotGoWithTwoListsOfFactors) {
  std::vector<std::string> keys = {"model.dim=16",
                                   "model.n_heads=4",
                                   "model.rope_type=longrope",
                                   "model.rope_scaling_factor=2",
                                   "model.rope_original_seq_len=32",
                                   "model.rope_short_factor=[1,1]",
                                   "model.rope_long_factor=[1,2]",
                                   "training.seq_len=64",
                                   "validation.freq=5",
                                   "validation.generate=[\"once\"]"};
  const size_t before = problems(keys).size();
  keys.emplace_back("parallelism.tensor_parallel_degree=2");
  const std::vector<std::string> after = problems(keys);
  EXPECT_EQ(after.size(), before + 1);
  EXPECT_TRUE(std::find(after.begin(), after.end(),
                        "validation.generate does not go with model.rope_type = \"longrope\" here") != after.end());
}

TEST(CheckRope, APartOfAHeadThatRotatesHasPairs) {
  const std::vector<std::string> heads = {"model.dim=64", "model.n_heads=4"};
  const auto with = [&](const std::string& key) { return problems({heads[0], heads[1], key}); };
  EXPECT_TRUE(with("model.partial_rotary_factor=0.5").empty());
  EXPECT_EQ(with("model.partial_rotary_factor=0.6"),
            one("model.partial_rotary_factor = 0.6 rotates 9 elements of a head"));
  EXPECT_EQ(with("model.partial_rotary_factor=0.01"),
            one("model.partial_rotary_factor = 0.01 rotates 0 elements of a head"));
}

TEST(CheckRope, QueriesAreScaledWithTheirRotation) {
  const std::vector<std::string> scaled = {"model.query_position_scale=0.1", "model.rope_scaling_factor=16"};
  const auto with = [&](const std::string& key) { return problems({scaled[0], scaled[1], key}); };
  EXPECT_TRUE(problems(scaled).empty());
  EXPECT_EQ(problems({scaled[0]}),
            one("model.query_position_scale = 0.1 has no effect with model.rope_scaling_factor = 1.0"));
  EXPECT_EQ(with("model.partial_rotary_factor=0.5"),
            one("model.query_position_scale does not go with model.partial_rotary_factor"));
  EXPECT_EQ(with("model.no_rope_layer_interval=4"),
            one("model.query_position_scale does not go with model.no_rope_layer_interval"));
}

// Layers with a window would have it.
TEST(CheckRope, ABaseOfNoLayerIsAnError) {
  EXPECT_EQ(problems({"model.rope_local_theta=10000"}),
            one("model.rope_local_theta = 10000.0 has no effect with model.sliding_window = 0"));
}

}  // namespace
}  // namespace hearth::config
