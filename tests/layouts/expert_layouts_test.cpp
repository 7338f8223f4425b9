// SPDX-License-Identifier: Apache-2.0
// Experts on ranks of their own (parallelism.expert_parallel_degree), over every axis that these ranks may come from.
#include "layouts.h"

namespace hearth::test {
namespace {

TEST_F(ExpertLayouts, InFloat64TrainAsOneRankDoes) {
  for (const bool masked : {false, true}) {
    config::RunConfig run = expert_run(DType::kFloat64, 2, masked ? "apart-masked" : "apart");
    if (masked) {
      be_as_qwen(run.model);
      run.model.vocab_size = 259;  // a row for the mask
      run.objective.kind = config::ObjectiveKind::kMaskedLm;
      run.objective.mask_id = 258;
      run.memory.recompute = config::RecomputeChoice::kBlock;
    }
    SCOPED_TRACE(masked ? "masked" : "causal");
    expect_as_one_rank(run, kExpertLayouts);
  }
}

// All tokens are the same one, so all rows of a layer choose the same expert: one rank gets every row, and others none.
TEST_F(ExpertLayouts, TrainAsOneRankDoesWhereOneExpertTakesAll) {
  make_folders(*folder_ / "same" / "text");
  for (int i = 0; i < 8; ++i)
    write_file_atomic(*folder_ / "same" / "text" / fmt::format("{}.txt", i), std::string(2000 + i, 'a'));
  data::BuildOptions options;
  options.out = *folder_ / "same" / "data";
  options.paths = {*folder_ / "same" / "text"};
  options.rules.validation = 0.3;
  data::BuildProgress progress;
  data::build_dataset(options, progress);
  config::RunConfig run = expert_run(DType::kFloat64, 2, "same");
  run.data.path = "same/data";
  run.model.moe_top_k = 1;
  expect_as_one_rank(run, kExpertLayouts);
  for (const metrics::ExpertLoad& load : metrics::read_metrics(run.run_folder() / "metrics.jsonl").back().expert_loads)
    EXPECT_GE(load.most, 15) << load.layer;
}

// Each rank orthogonalises its own experts.
TEST_F(ExpertLayouts, TrainWithMuonAsOneRankDoes) {
  config::RunConfig run = expert_run(DType::kFloat64, 2, "apart-muon");
  run.optimizer.name = config::OptimizerName::kMuon;
  expect_as_one_rank(run, kExpertLayouts);
}

TEST_F(ExpertLayouts, InBfloat16StayNearOneRank) {
  const config::RunConfig run = expert_run(DType::kBFloat16, 2, "apart");
  const Result one = result_of(run);
  for (const Layout& layout : kExpertLayouts) {
    SCOPED_TRACE(layout.name);
    expect_near(trained(run, layout), one, 0.05);
  }
}

// With saves in the background, and the last step on one rank.
TEST_F(ExpertLayouts, ChangeAtEachResumeAndTheCurveStaysThatOfOneRank) {
  config::RunConfig run = expert_run(DType::kFloat64, 1, "apart-chain");
  run.checkpoint.async_mode = config::AsyncMode::kAsync;
  std::vector<Layout> layouts = kExpertLayouts;
  layouts.push_back({"one", {}});
  expect_changes_as_one_rank(run, layouts);
}

}  // namespace
}  // namespace hearth::test
