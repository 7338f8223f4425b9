// SPDX-License-Identifier: Apache-2.0
#include "config/resume.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace hearth::config {
namespace {

TEST(Resume, EqualConfigurationsDoNotDifferWhereverTheyStand) {
  RunConfig before, now;
  now.base_folder = "elsewhere";
  EXPECT_TRUE(differences(before, now).empty());
}

TEST(Resume, EveryChangeIsNamedWithBothValues) {
  RunConfig before, now;
  now.training.steps = 2000;
  now.optimizer.lr = 1e-4;
  now.model.depth_init = false;
  const std::vector<Difference> changes = differences(before, now);
  ASSERT_EQ(changes.size(), 3u);
  EXPECT_EQ(describe(changes[0]), "model.depth_init: true -> false (no effect: the run has begun)");
  EXPECT_EQ(describe(changes[1]), "optimizer.lr: 0.0008 -> 0.0001");
  EXPECT_EQ(describe(changes[2]), "training.steps: 0 -> 2000");
  refuse_changes(changes, "checkpoints/step-00000100");  // does not throw
}

TEST(Resume, ChangesInListsAreNamedByTableAndAnAddedOneHadNothing) {
  RunConfig before, now;
  before.data.source = {{"web", 4, 0}};
  now.data.source = {{"web", 2, 0}, {"books", 1, 4}};
  std::vector<std::string> texts;
  for (const Difference& change : differences(before, now)) texts.push_back(describe(change));
  EXPECT_EQ(texts,
            (std::vector<std::string>{"data.source.1.path: none -> \"books\"", "data.source.0.weight: 4.0 -> 2.0",
                                      "data.source.1.weight: none -> 1.0", "data.source.1.epochs_max: none -> 4.0"}));
}

TEST(Resume, ChangesThatMakeItAnotherTrainingAreRefusedAllAtOnce) {
  RunConfig before, now;
  now.model.dim = 512;
  now.training.seq_len = 1024;
  now.training.steps = 5;
  now.training.seed = 1;
  try {
    refuse_changes(differences(before, now), "checkpoints/step-00000100");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUser);
    EXPECT_STREQ(error.what(),
                 "error: the run cannot go on from checkpoints/step-00000100 with these changes:\n"
                 "    model.dim: 256 -> 512\n"
                 "    training.seq_len: 2048 -> 1024\n"
                 "    training.seed: 0 -> 1\n"
                 "  why: it would no longer be the same training\n"
                 "  fix: set them back; or start a new run with another job.dump_folder, or with --restart");
  }
}

// docs/config.md in both directions: keys that decide the weights' shapes or the order of the data must not change, the
// others may.
TEST(Resume, TheShapeTheSeedAndTheWindowRefuseAndNothingElse) {
  const std::vector<std::string> refused = {"model.dim",
                                            "model.n_layers",
                                            "model.n_heads",
                                            "model.n_kv_heads",
                                            "model.head_dim",
                                            "model.hidden_dim",
                                            "model.ffn_dim_multiplier",
                                            "model.multiple_of",
                                            "model.norm_type",
                                            "model.norm_eps",
                                            "model.attention_scope",
                                            "model.sliding_window",
                                            "model.full_attention_interval",
                                            "model.first_full_attention_layer",
                                            "model.layer_types",
                                            "model.enable_weight_tying",
                                            "model.rope_theta",
                                            "model.rope_type",
                                            "model.rope_scaling_factor",
                                            "model.rope_low_freq_factor",
                                            "model.rope_high_freq_factor",
                                            "model.rope_original_seq_len",
                                            "model.rope_beta_fast",
                                            "model.rope_beta_slow",
                                            "model.rope_truncate",
                                            "model.rope_attention_factor",
                                            "model.rope_mscale_all_dim",
                                            "model.rope_short_factor",
                                            "model.rope_long_factor",
                                            "model.partial_rotary_factor",
                                            "model.rope_local_theta",
                                            "model.query_position_scale",
                                            "model.rope_pairs",
                                            "model.norm_placement",
                                            "model.qkv_bias",
                                            "model.attention_gate",
                                            "model.output_bias",
                                            "model.attention_sinks",
                                            "model.ffn_bias",
                                            "model.qk_norm",
                                            "model.qk_norm_scope",
                                            "model.activation",
                                            "model.gated_ffn",
                                            "model.embedding_multiplier",
                                            "model.round_embedding_multiplier",
                                            "model.residual_multiplier",
                                            "model.attention_multiplier",
                                            "model.logits_divisor",
                                            "model.no_rope_layer_interval",
                                            "model.embedding_norm",
                                            "model.first_attention_norm",
                                            "model.prediction_head",
                                            "model.decoder_bias",
                                            "model.kv_lora_rank",
                                            "model.q_lora_rank",
                                            "model.qk_nope_head_dim",
                                            "model.qk_rope_head_dim",
                                            "model.v_head_dim",
                                            "model.num_experts",
                                            "model.moe_top_k",
                                            "model.moe_hidden_dim",
                                            "model.n_dense_layers",
                                            "model.num_shared_experts",
                                            "model.score_func",
                                            "model.router_bias",
                                            "model.expert_bias",
                                            "model.num_expert_groups",
                                            "model.num_limited_groups",
                                            "model.route_norm",
                                            "model.route_scale",
                                            "model.vocab_size",
                                            "objective.kind",
                                            "objective.mask_token",
                                            "objective.mask_id",
                                            "objective.shift_logits",
                                            "optimizer.name",
                                            "optimizer.form",
                                            "optimizer.moments_dtype",
                                            "training.seq_len",
                                            "training.seed",
                                            "training.dtype",
                                            "checkpoint.freeze",
                                            "data.weight_rule",
                                            "data.order",
                                            "data.packing",
                                            "data.stride"};
  std::vector<std::string> found;
  for (const Field& field : fields()) {
    if (field.at_resume == AtResume::kRefuse) found.push_back(field.name());
  }
  EXPECT_EQ(found, refused);
}

}  // namespace
}  // namespace hearth::config
