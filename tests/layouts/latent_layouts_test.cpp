// SPDX-License-Identifier: Apache-2.0
// Latent attention in every layout: ranks of tensor parallel have its heads, and each has all of its latent rows.
#include "layouts.h"

namespace hearth::test {
namespace {

struct LatentLayouts : Layouts {
  // Heads of 6 + 2 elements, with values of 5. `of_queries`: the width of the queries' latent row, or 0.
  static config::RunConfig latent_run(int64_t of_queries, int64_t steps, const std::string& name) {
    config::RunConfig c = run_of(of_queries > 0 ? Task::kExperts : Task::kCausal, DType::kFloat64, steps, name);
    c.model.attention_gate = false;
    c.model.query_position_scale = 0;
    c.model.n_kv_heads = 0;
    c.model.kv_lora_rank = 20;
    c.model.q_lora_rank = of_queries;
    c.model.qk_nope_head_dim = 6;
    c.model.qk_rope_head_dim = 2;
    c.model.v_head_dim = 5;
    if (of_queries == 0) c.model.rope_mscale_all_dim = 0.8;
    return c;
  }
};

TEST_F(LatentLayouts, InFloat64TrainAsOneRankDoes) {
  for (const int64_t of_queries : {0, 28}) {
    SCOPED_TRACE(of_queries);
    const config::RunConfig run = latent_run(of_queries, 3, of_queries > 0 ? "latent" : "latent-keys");
    const Result one = result_of(run);
    for (const Layout& layout : kLayouts) {
      SCOPED_TRACE(layout.name);
      const Result several = trained(run, layout);
      expect_near(several, one, 1e-9);
      expect_tensors_near(several, one, 1e-7);
    }
  }
}

// Each rank orthogonalises whole matrices, of which it has some rows.
TEST_F(LatentLayouts, TrainWithMuonAsOneRankDoes) {
  config::RunConfig run = latent_run(28, 2, "latent-muon");
  run.optimizer.name = config::OptimizerName::kMuon;
  const Result one = result_of(run);
  for (const Layout& layout : kLayouts) {
    if (layout.ranks.tensor_parallel_degree == 1) continue;
    SCOPED_TRACE(layout.name);
    const Result several = trained(run, layout);
    expect_near(several, one, 1e-9);
    expect_tensors_near(several, one, 1e-7);
  }
}

// The same in other numbers, where ranks also have experts of their own.
TEST_F(LatentLayouts, WithExpertsOfTheirOwnTrainAsOneRankDoes) {
  const config::RunConfig run = latent_run(28, 2, "latent-apart");
  const Result one = result_of(run);
  for (const Layout& layout :
       {Layout{"ep2_tp2", {.tensor_parallel_degree = 2, .expert_parallel_degree = 2}},
        Layout{"ep2_cp2", {.context_parallel_degree = 2, .expert_parallel_degree = 2}},
        Layout{"ep2_dp2_zero3", {.data_parallel_shard_degree = 2, .zero_stage = 3, .expert_parallel_degree = 2}}}) {
    SCOPED_TRACE(layout.name);
    const Result several = trained(run, layout);
    expect_near(several, one, 1e-9);
    expect_tensors_near(several, one, 1e-7);
  }
}

}  // namespace
}  // namespace hearth::test
