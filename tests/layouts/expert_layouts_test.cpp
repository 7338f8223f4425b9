// SPDX-License-Identifier: Apache-2.0
// Experts on ranks of their own (parallelism.expert_parallel_degree), over every axis that these ranks may come from.
#include "layouts.h"

namespace hearth::test {
namespace {

TEST_F(ExpertLayouts, InFloat64TrainAsOneRankDoes) {
  for (const bool masked : {false, true}) {
    config::RunConfig run = expert_run(DType::kFloat64, 2, masked ? "apart-masked" : "apart");
    if (masked) {
      run.model.vocab_size = 259;  // a row for the mask
      run.objective.kind = config::ObjectiveKind::kMaskedLm;
      run.objective.mask_id = 258;
      run.memory.recompute = config::RecomputeChoice::kBlock;
    }
    const Result one = result_of(run);
    for (const Layout& layout : kExpertLayouts) {
      SCOPED_TRACE(fmt::format("{} {}", masked ? "masked" : "causal", layout.name));
      const Result several = trained(run, layout);
      expect_near(several, one, 1e-9);
      expect_tensors_near(several, one, 1e-7);
    }
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
  const Result one = result_of(run);
  for (const metrics::ExpertLoad& load : one.records.back().expert_loads) EXPECT_GE(load.most, 15) << load.layer;
  for (const Layout& layout : kExpertLayouts) {
    SCOPED_TRACE(layout.name);
    const Result several = trained(run, layout);
    expect_near(several, one, 1e-9);
    expect_tensors_near(several, one, 1e-7);
  }
}

// Each rank orthogonalises its own experts.
TEST_F(ExpertLayouts, TrainWithMuonAsOneRankDoes) {
  config::RunConfig run = expert_run(DType::kFloat64, 2, "apart-muon");
  run.optimizer.name = config::OptimizerName::kMuon;
  const Result one = result_of(run);
  for (const Layout& layout : kExpertLayouts) {
    SCOPED_TRACE(layout.name);
    const Result several = trained(run, layout);
    expect_near(several, one, 1e-9);
    expect_tensors_near(several, one, 1e-7);
  }
}

TEST_F(ExpertLayouts, InBfloat16StayNearOneRank) {
  const config::RunConfig run = expert_run(DType::kBFloat16, 2, "apart");
  const Result one = result_of(run);
  for (const Layout& layout : kExpertLayouts) {
    SCOPED_TRACE(layout.name);
    expect_near(trained(run, layout), one, 0.05);
  }
}

// Each step in another layout, with saves in the background, and the last on one rank.
TEST_F(ExpertLayouts, ChangeAtEachResumeAndTheCurveStaysThatOfOneRank) {
  const auto steps = static_cast<int64_t>(kExpertLayouts.size()) + 1;
  config::RunConfig run = expert_run(DType::kFloat64, steps, "apart-chain");
  run.lr_scheduler.warmup_steps = 1;  // a warm-up longer than the run is cut
  run.validation.freq = 0;
  const Result one = result_of(run);
  run.job.dump_folder += "-changing";
  run.checkpoint.async_mode = config::AsyncMode::kAsync;
  for (int64_t step = 1; step <= steps; ++step) {
    run.parallelism = step == steps ? Parallelism{} : kExpertLayouts[static_cast<size_t>(step - 1)].ranks;
    run.training.threads = run.parallelism.ranks();
    run.training.steps = step;
    train::train(run);
  }
  const Result changing = {metrics::read_metrics(run.run_folder() / "metrics.jsonl"), tensors_of(step_of(run, steps))};
  expect_near(changing, one, 1e-9);
  expect_tensors_near(changing, one, 1e-7);
}

}  // namespace
}  // namespace hearth::test
