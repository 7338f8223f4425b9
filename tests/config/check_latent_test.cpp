// SPDX-License-Identifier: Apache-2.0
// The rules of latent attention.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "problems.h"

namespace hearth::config {
namespace {

// With a latent row of 32 elements.
std::vector<std::string> latent_problems(std::initializer_list<const char*> keys) {
  std::vector<std::string> all = {"model.kv_lora_rank=32"};
  all.insert(all.end(), keys.begin(), keys.end());
  return problems(all);
}

TEST(CheckLatent, HeadsHaveWidthsThatAttentionComputes) {
  EXPECT_TRUE(latent_problems({}).empty());
  EXPECT_TRUE(latent_problems({"model.q_lora_rank=48", "model.dim=100", "model.n_heads=3"}).empty());
  EXPECT_TRUE(
      latent_problems({"model.qk_nope_head_dim=10", "model.qk_rope_head_dim=6", "model.v_head_dim=16"}).empty());
  EXPECT_EQ(latent_problems({"model.qk_rope_head_dim=7"}), one("model.qk_rope_head_dim = 7 is odd"));
  EXPECT_EQ(latent_problems({"model.qk_nope_head_dim=7", "model.v_head_dim=5"}),
            one("model.qk_nope_head_dim = 7 is odd"));
  EXPECT_EQ(latent_problems({"model.qk_nope_head_dim=194"}),
            one("a head has model.qk_nope_head_dim + model.qk_rope_head_dim = 258 elements, more than 256"));
  EXPECT_EQ(latent_problems({"model.v_head_dim=193"}),
            one("model.v_head_dim = 193 is more than the 192 elements of a key"));
}

TEST(CheckLatent, OtherHeadsDoNotGoWithIt) {
  EXPECT_TRUE(latent_problems({"model.n_heads=4", "model.n_kv_heads=4"}).empty());
  for (const auto& [key, value] : {std::pair("head_dim", "64"), {"n_kv_heads", "2"}, {"partial_rotary_factor", "0.5"}})
    EXPECT_EQ(latent_problems({fmt::format("model.{}={}", key, value).c_str()}),
              one(fmt::format("model.{} = {} does not go with model.kv_lora_rank = 32", key, value)));
  EXPECT_EQ(latent_problems({"model.rope_pairs=halves"}),
            one("model.rope_pairs = \"halves\" does not go with model.kv_lora_rank = 32"));
  EXPECT_EQ(latent_problems({"model.query_position_scale=0.1", "model.rope_scaling_factor=4"}),
            one("model.query_position_scale = 0.1 does not go with model.kv_lora_rank = 32"));
  for (const char* key : {"model.qkv_bias=true", "model.qk_norm=true", "model.attention_gate=true"})
    EXPECT_EQ(latent_problems({key}),
              one("model.kv_lora_rank does not go with model.qkv_bias, model.qk_norm and model.attention_gate"));
}

TEST(CheckLatent, ItIsNotMultipliedInFloat8) {
  EXPECT_EQ(latent_problems({"numerics.fp8=true", "training.device=cuda"}),
            one("latent attention is not multiplied in float8"));
}

TEST(CheckLatent, ItsKeysHaveNoEffectWithoutIt) {
  for (const char* key : {"q_lora_rank=8", "qk_nope_head_dim=8", "qk_rope_head_dim=8", "v_head_dim=8"})
    EXPECT_THAT(problems({fmt::format("model.{}", key)}).front(), testing::HasSubstr("has no effect")) << key;
  EXPECT_THAT(problems({"model.rope_mscale_all_dim=1"}).front(), testing::HasSubstr("has no effect"));
}

}  // namespace
}  // namespace hearth::config
