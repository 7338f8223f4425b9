// SPDX-License-Identifier: Apache-2.0
// A run with LLaDA's loss (masked_diffusion).
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "data/batch/loader.h"
#include "initial_weights.h"
#include "support/python.h"
#include "tiny_run.h"

namespace hearth::train {
namespace {

using nlohmann::json;

config::RunConfig diffusion(const Path& folder, const std::string& name) {
  config::RunConfig c = tiny_config(folder);
  c.job.dump_folder = name;
  c.model.vocab_size = 259;  // a row for the mask
  c.objective.kind = config::ObjectiveKind::kMaskedDiffusion;
  c.objective.mask_id = 258;
  c.objective.random_length_prob = 0.3;
  c.validation.freq = 6;
  c.validation.steps = 1;
  c.validation.mc_num = 3;
  return c;
}

struct DiffusionRun : TinyData {};

struct ReferenceCase {
  const char* name;
  config::AttentionScope scope;
  bool shift;
};
struct DiffusionReference : ::testing::TestWithParam<ReferenceCase> {
  DiffusionReference() { build_tiny_data(scratch, /*words_per_document=*/9); }
  test::ScratchFolder scratch;
};
INSTANTIATE_TEST_SUITE_P(All, DiffusionReference,
                         ::testing::Values(ReferenceCase{"Window", config::AttentionScope::kWindow, false},
                                           ReferenceCase{"Documents", config::AttentionScope::kDocument, false},
                                           ReferenceCase{"Shifted", config::AttentionScope::kWindow, true},
                                           ReferenceCase{"ShiftedDocuments", config::AttentionScope::kDocument, true}),
                         [](const auto& info) { return std::string(info.param.name); });

// The batches are the loader's own; their law is tested with it.
TEST_P(DiffusionReference, LossAndGradientAreThoseOfLladasGuidelines) {
  config::RunConfig c = diffusion(scratch, "run");
  c.training.dtype = DType::kFloat64;
  c.training.steps = 1;
  c.training.max_norm = 0;
  c.checkpoint.interval = 0;
  c.validation.freq = 0;
  c.objective.shift_logits = GetParam().shift;
  c.model.attention_scope = GetParam().scope;
  const Path initial = save_initial_weights(c);
  json spec = {{"H", c.model.n_heads},
               {"G", c.model.n_kv_heads},
               {"norm_eps", c.model.norm_eps},
               {"rope_theta", c.model.rope_theta},
               {"mask_id", 258},
               {"shift", GetParam().shift},
               {"documents", GetParam().scope == config::AttentionScope::kDocument},
               {"beta1", c.optimizer.beta1}};
  {
    const run::Run run = run::open_run(c);  // has the folder
    data::Loader loader(run.data.splits(), run.loading(0));
    for (const data::Batch& batch : loader.next().micro_batches)
      spec["batches"].push_back({{"B", batch.B},
                                 {"S", batch.S},
                                 {"tokens", batch.tokens},
                                 {"labels", batch.labels},
                                 {"weights", batch.weights},
                                 {"counted", batch.counted},
                                 {"row_tokens", batch.row_tokens},
                                 {"starts", batch.document_starts}});
  }
  write_file_atomic(scratch / "spec.json", spec.dump());
  const metrics::StepRecord ours = train(c).back();
  const auto python = test::run_python(fmt::format("tests/train/diffusion_reference.py loss {} {} {}", initial.string(),
                                                   (scratch / "spec.json").string(), step_of(c, 1).string()));
  ASSERT_EQ(python.exit_code, 0) << python.output;
  const json theirs = json::parse(python.output);
  EXPECT_GT(theirs["hidden"].get<int64_t>(), 10);
  EXPECT_NEAR(*ours.loss / theirs["loss"].get<double>(), 1, 1e-9);
  EXPECT_NEAR(*ours.grad_norm / theirs["norm"].get<double>(), 1, 1e-9);
  EXPECT_LT(theirs["distance"].get<double>(), 1e-9);
}

// The held-out loss is a bound from the same draws in every measurement and layout.
TEST_F(DiffusionRun, LearnsAndHasOneLossGradientAndBoundHoweverAStepIsCut) {
  const auto records = expect_one_curve_however_a_step_is_cut(
      [this](const std::string& name) { return diffusion(scratch, name); }, 96, 12);
  EXPECT_LT(*records.back().validation_loss, 0.75 * *records.front().validation_loss);
}

TEST_F(DiffusionRun, AfterAStopTheNumbersAreThoseOfAnUninterruptedRun) {
  const config::RunConfig whole = diffusion(scratch, "whole");
  const auto expected = train(whole);
  config::RunConfig parts = diffusion(scratch, "parts");
  for (const int64_t steps : {5, 12}) {
    parts.training.steps = steps;
    train(parts);
  }
  auto got = metrics::read_metrics(parts.run_folder() / "metrics.jsonl");
  expect_same_training(got, expected);
  EXPECT_EQ(tensors_of(step_of(parts, 12)), tensors_of(step_of(whole, 12)));
}

TEST_F(DiffusionRun, ValidationIsTheSameEveryTime) {
  config::RunConfig c = diffusion(scratch, "run");
  c.optimizer.lr = 0;
  std::set<double> losses;
  int64_t count = 0;
  for (const metrics::StepRecord& record : train(c)) {
    if (!record.validation_loss) continue;
    losses.insert(*record.validation_loss);
    ++count;
  }
  EXPECT_EQ(count, 3);
  EXPECT_EQ(losses.size(), 1U);
}

// A step in which nothing is hidden has the loss 0, which is part of the mean.
TEST_F(DiffusionRun, AStepWithoutHiddenTokensCounts) {
  config::RunConfig c = diffusion(scratch, "run");
  c.training.local_batch_size = c.training.global_batch_size = 1;
  c.training.seq_len = 4;
  c.training.steps = 40;
  c.validation.freq = 0;
  int64_t zeros = 0;
  for (const metrics::StepRecord& record : train(c)) zeros += record.loss && *record.loss == 0;
  EXPECT_GT(zeros, 2);
}

// Dream's way: with the shift, the weights of a causal model are a better start than random ones, and than the same
// weights without it.
TEST_F(DiffusionRun, ACausalModelIsAStartForShiftedLogits) {
  config::RunConfig causal = tiny_config(scratch);
  causal.job.dump_folder = "causal";
  causal.model.vocab_size = 259;
  causal.training.steps = 100;
  causal.checkpoint.interval = 0;
  train(causal);
  const auto first_bound = [&](bool transfers, bool shift) {
    config::RunConfig c = diffusion(scratch, fmt::format("from-{}-{}", transfers, shift));
    c.training.steps = 6;
    c.validation.mc_num = 32;
    c.objective.shift_logits = shift;
    if (transfers) c.checkpoint.initial_load_path = step_of(causal, 100).string();
    return *train(c).back().validation_loss;
  };
  const double shifted = first_bound(true, true);
  EXPECT_LT(shifted, first_bound(true, false) - 0.05);
  EXPECT_LT(shifted, first_bound(false, true) - 0.05);
}

}  // namespace
}  // namespace hearth::train
