// SPDX-License-Identifier: Apache-2.0
// Runs that compute in bfloat16: they learn, save, and resume to the bit.
#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "comm/group.h"
#include "infer/eval.h"
#include "infer/generate.h"
#include "run/start.h"
#include "tiny_run.h"

namespace hearth::train {
namespace {

struct Bfloat16 : TinyData {
  config::RunConfig config() const {
    config::RunConfig c = tiny_config(scratch);
    c.training.mixed_precision_param = DType::kBFloat16;
    return c;
  }
};

TEST_F(Bfloat16, TwoHundredStepsLearnWhatFloat32Learns) {
  config::RunConfig c = config();
  c.training.steps = 200;
  c.checkpoint.interval = 0;
  c.optimizer.lr = 5e-3;
  c.lr_scheduler.decay_type = config::DecayType::kCosine;
  const auto half = train(c);
  c.job.dump_folder = "float32";
  c.training.mixed_precision_param = DType::kFloat32;
  const auto full = train(c);
  ASSERT_EQ(half.size(), full.size());
  double worst = 0;
  for (size_t i = 0; i < full.size(); ++i) worst = std::max(worst, std::abs(*half[i].loss / *full[i].loss - 1));
  RecordProperty("worst_relative_difference", fmt::format("{:.3g}", worst));
  EXPECT_LT(worst, 0.02);
  EXPECT_GT(worst, 1e-6) << "it was not computed in bfloat16 at all";
  EXPECT_LT(*full.back().loss, 0.5 * *full.front().loss) << "both must have learned for this to mean anything";
}

TEST_F(Bfloat16, CheckpointsHoldFloat32AndAResumedRunIsTheSameToTheBit) {
  for (const int64_t ranks : {1, 2}) {
    config::RunConfig c = config();
    c.job.dump_folder = fmt::format("whole-{}", ranks);
    c.parallelism.data_parallel_shard_degree = ranks;
    const auto whole = train(c);
    config::RunConfig parts = c;
    parts.job.dump_folder = fmt::format("parts-{}", ranks);
    parts.training.steps = 8;
    train(parts);
    parts.training.steps = c.training.steps;
    expect_same_training(train(parts), whole);
    EXPECT_EQ(tensors_of(step_of(parts, 12)), tensors_of(step_of(c, 12)));
    checkpoint::Reader reader = checkpoint::Reader::open(step_of(c, 12));
    for (const mesh::TensorInfo& tensor : reader.tensors()) EXPECT_EQ(tensor.dtype, DType::kFloat32);
  }
}

// Everything in bfloat16, as on Trainium: only stochastic rounding keeps small updates.
TEST_F(Bfloat16, WeightsRoundedAtRandomLearnAndAreResumedToTheBit) {
  config::RunConfig c = config();
  c.training.dtype = DType::kBFloat16;
  c.optimizer.moments_dtype = DType::kBFloat16;
  c.numerics.stochastic_rounding = true;
  const auto whole = train(c);
  EXPECT_LT(*whole.back().loss, *whole.front().loss);
  config::RunConfig parts = c;
  parts.job.dump_folder = "parts";
  parts.training.steps = 8;
  train(parts);
  parts.training.steps = 12;
  expect_same_training(train(parts), whole);
  EXPECT_EQ(tensors_of(step_of(parts, 12)), tensors_of(step_of(c, 12)));
  checkpoint::Reader reader = checkpoint::Reader::open(step_of(c, 12));
  for (const mesh::TensorInfo& tensor : reader.tensors())
    EXPECT_EQ(tensor.dtype, tensor.name.ends_with(".step") ? DType::kFloat32 : DType::kBFloat16) << tensor.name;

  c.job.dump_folder = "nearest";
  c.numerics.stochastic_rounding = false;
  EXPECT_NE(*train(c).back().loss, *whole.back().loss);
}

TEST_F(Bfloat16, WeightsInItWithoutRoundingAtRandomAreDoubted) {
  config::RunConfig c = tiny_config(scratch);
  const auto doubted = [&] {
    run::Run run = run::open_run(c);
    const std::vector<std::string> notes = run::find_start(run, comm::single()->control()).warnings;
    return std::any_of(notes.begin(), notes.end(), [](const std::string& note) {
      return note.starts_with("training.dtype = \"bfloat16\": updates below 1/512 of a weight vanish");
    });
  };
  // Half of the spacing just below 1, by LibTorch: an update of this size is lost, a larger one is not.
  const at::Tensor one = at::ones({1}, at::kBFloat16);
  EXPECT_TRUE(at::equal(one - at::full({1}, 1.0 / 512, at::kBFloat16), one));
  EXPECT_FALSE(at::equal(one - at::full({1}, 1.1 / 512, at::kBFloat16), one));
  EXPECT_FALSE(doubted());
  c.training.dtype = DType::kBFloat16;
  c.training.mixed_precision_param = DType::kBFloat16;
  EXPECT_TRUE(doubted());
  c.numerics.stochastic_rounding = true;
  EXPECT_FALSE(doubted());
}

// Ranks change the order of sums, also in bfloat16: each gradient is rounded before the sum.
TEST_F(Bfloat16, RanksGiveTheSameLossesButForTheOrderOfSums) {
  config::RunConfig c = config();
  const auto one = train(c);
  for (const int64_t ranks : {2, 4}) {
    c.job.dump_folder = fmt::format("ranks-{}", ranks);
    c.parallelism.data_parallel_shard_degree = ranks;
    const auto several = train(c);
    ASSERT_EQ(several.size(), one.size());
    EXPECT_NEAR(*several[0].loss / *one[0].loss, 1, 1e-12);
    for (size_t i = 0; i < one.size(); ++i) EXPECT_NEAR(*several[i].loss / *one[i].loss, 1, 0x1p-8) << "step " << i + 1;
  }
}

TEST_F(Bfloat16, ACheckpointIsEvaluatedAndContinuedAndMayGoOnInFloat32) {
  config::RunConfig c = config();
  c.training.steps = 8;
  c.validation.freq = 8;
  const auto records = train(c);
  const infer::EvalReport report = infer::eval_checkpoint({.checkpoint = step_of(c, 8), .batch_size = 2}).front();
  EXPECT_NEAR(report.validation.loss() / *records.back().validation_loss, 1, 1e-6);

  const auto model = infer::load_model(step_of(c, 8));
  EXPECT_EQ(model->dtype, DType::kBFloat16);
  std::string text;
  const infer::Generation request{.prompt = "ka lo", .max_tokens = 20, .sampling = {.temperature = 0}, .seed = 1};
  EXPECT_EQ(infer::generate(*model, request, [&](std::string_view more) { text += more; }).generated_tokens, 20);

  c.training.steps = 12;
  c.training.mixed_precision_param = DType::kFloat32;
  EXPECT_EQ(train(c).back().step, 12);
}

}  // namespace
}  // namespace hearth::train
