// SPDX-License-Identifier: Apache-2.0
// Megatron-LM's options of mixtures of experts.
#include "config/import/imported.h"

namespace hearth::config {
namespace {

using test_import::ImportTest;
using testing::HasSubstr;
using testing::Not;

// A command with these options besides.
std::string with(const std::string& options, int sequences = 1) {
  return "torchrun --nproc_per_node 8 --nnodes 4 pretrain_gpt.py --num-layers 27 --hidden-size 2048 "
         "--ffn-hidden-size 10944 --num-attention-heads 16 --seq-length 4096 --position-embedding-type rope "
         "--attention-dropout 0.0 --hidden-dropout 0.0 --swiglu --normalization RMSNorm "
         "--untie-embeddings-and-output-weights --disable-bias-linear --global-batch-size 128 "
         "--train-iters 100 --lr 0.0001 --mock-data --vocab-size 128256 --tensor-model-parallel-size 2 " +
         fmt::format("--micro-batch-size {} {}\n", sequences, options);
}

TEST_F(ImportTest, MegatronsExpertsAreThoseOfItsCommand) {
  const RunConfig c =
      import(
          {{"a.txt",
            with("--num-experts 64 --moe-ffn-hidden-size 1408 --moe-router-topk 6 --moe-layer-freq \"([0]*1+[1]*26)\" "
                 "--moe-shared-expert-intermediate-size 2816 --moe-router-score-function sigmoid "
                 "--moe-router-enable-expert-bias --moe-router-bias-update-rate 0.002 --moe-router-num-groups 8 "
                 "--moe-router-group-topk 4 --moe-router-topk-scaling-factor 2.5 --moe-aux-loss-coeff 0.01 "
                 "--moe-router-load-balancing-type seq_aux_loss --moe-grouped-gemm --moe-token-dispatcher-type "
                 "alltoall --expert-model-parallel-size 8 --expert-tensor-parallel-size 1")}})
          .config;
  EXPECT_EQ(c.model.num_experts, 64);
  EXPECT_EQ(c.model.moe_hidden_dim, 1408);
  EXPECT_EQ(c.model.hidden_dim, 10944);
  EXPECT_EQ(c.model.moe_top_k, 6);
  EXPECT_EQ(c.model.n_dense_layers, 1);
  EXPECT_EQ(c.model.num_shared_experts, 2);
  EXPECT_EQ(c.model.score_func, ScoreFunc::kSigmoid);
  EXPECT_TRUE(c.model.expert_bias && c.model.route_norm);
  EXPECT_EQ(c.model.load_balance_coeff, 0.002);
  EXPECT_EQ(c.model.num_expert_groups, 8);
  EXPECT_EQ(c.model.num_limited_groups, 4);
  EXPECT_EQ(c.model.route_scale, 2.5);
  EXPECT_EQ(c.model.moe_aux_loss_coeff, 0.01);
  EXPECT_EQ(c.parallelism.expert_parallel_degree, 8);
  EXPECT_EQ(c.parallelism.data_parallel_shard_degree, 16);
}

// megatron/core/transformer/moe/moe_utils.py: without --moe-router-pre-softmax the softmax is over the chosen experts.
TEST_F(ImportTest, MegatronsSoftmaxIsOverTheChosenExpertsUnlessItComesBefore) {
  const RunConfig chosen = import({{"a.txt", with("--num-experts 8 --moe-z-loss-coeff 0.001")}}).config;
  EXPECT_EQ(chosen.model.moe_top_k, 2);
  EXPECT_TRUE(chosen.model.route_norm);
  EXPECT_EQ(chosen.model.score_func, ScoreFunc::kSoftmax);
  EXPECT_EQ(chosen.model.moe_hidden_dim, 0);  // as wide as a dense layer
  EXPECT_EQ(chosen.model.moe_z_loss_coeff, 0.001);
  EXPECT_EQ(chosen.model.moe_aux_loss_coeff, 0);
  EXPECT_FALSE(import({{"a.txt", with("--num-experts 8 --moe-router-pre-softmax")}}).config.model.route_norm);
}

TEST_F(ImportTest, MegatronsExpertsThatHearthDoesNotTrainAreRefused) {
  const auto said = [&](const std::string& options) { return error({{"a.txt", with("--num-experts 8 " + options)}}); };
  EXPECT_THAT(said("--moe-layer-freq 2"), HasSubstr("--moe-layer-freq 2: the first layers have no experts"));
  EXPECT_THAT(said("--moe-layer-freq \"([0]*1+[1]*25)\""), HasSubstr("all others have them"));
  EXPECT_THAT(said("--moe-layer-freq [1]*26+[0]"), HasSubstr("all others have them"));
  EXPECT_THAT(said("--moe-aux-loss-coeff 0.01 --moe-router-load-balancing-type global_aux_loss"),
              HasSubstr("the loss that balances experts is of each sequence"));
  EXPECT_THAT(said("--moe-shared-expert-intermediate-size 1000"), HasSubstr("as wide as some experts together"));
  EXPECT_THAT(said("--moe-expert-capacity-factor 1.25"), HasSubstr("have no such option"));
  EXPECT_THAT(said("--moe-input-jitter-eps 0.1"), HasSubstr("have no such option"));
  EXPECT_THAT(said("--moe-shared-expert-gate"), HasSubstr("have no such option"));
  EXPECT_THAT(error({{"a.txt", with("--expert-model-parallel-size 4")}}), HasSubstr("the model has no experts"));
  const std::string text = import_text({{"a.txt", with("--num-experts 8 --moe-aux-loss-coeff 0.01", 2)}});
  EXPECT_THAT(text, HasSubstr("Hearth's is of each of its sequences"));
}

}  // namespace
}  // namespace hearth::config
