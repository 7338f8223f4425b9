// SPDX-License-Identifier: Apache-2.0
// Two hundred steps compared with PyTorch: the same Llama, the same first weights, the same batches.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "comm/group.h"
#include "data/batch/loader.h"
#include "initial_weights.h"
#include "run/run.h"
#include "support/python.h"

namespace hearth::train {
namespace {

constexpr int64_t kSteps = 200;

// int32: for each step tokens [B, S], then labels [B, S].
void write_batches(const config::RunConfig& config, const Path& path) {
  const run::Run run = run::open_run(config);
  data::Loader loader(run.data.splits(), run.loading(0));
  File file = File::create(path);
  for (int64_t step = 0; step < kSteps; ++step) {
    const data::StepBatch batch = loader.next();
    for (const auto column : {&data::Batch::tokens, &data::Batch::labels})
      for (const data::Batch& micro : batch.micro_batches) file.write(std::as_bytes(std::span(micro.*column)));
  }
  file.close();
}

void compare_curve(bool tied) {
  test::ScratchFolder scratch;
  build_tiny_data(scratch, 1500);
  config::RunConfig c = tiny_config(scratch);
  c.model.enable_weight_tying = tied;
  c.training.steps = kSteps;
  c.checkpoint.interval = 0;
  c.optimizer.lr = 5e-3;
  c.lr_scheduler.decay_type = config::DecayType::kCosine;
  const Path initial = save_initial_weights(c);
  write_batches(c, scratch / "batches");
  const auto records = train(c);

  nlohmann::json spec = {{"B", c.training.global_batch_size},
                         {"S", c.training.seq_len},
                         {"H", c.model.n_heads},
                         {"G", c.model.n_kv_heads},
                         {"norm_eps", c.model.norm_eps},
                         {"rope_theta", c.model.rope_theta},
                         {"tied", tied},
                         {"beta1", c.optimizer.beta1},
                         {"beta2", c.optimizer.beta2},
                         {"eps", c.optimizer.eps},
                         {"weight_decay", c.optimizer.weight_decay},
                         {"max_norm", c.training.max_norm},
                         {"lr", nlohmann::json::array()}};
  for (const metrics::StepRecord& r : records) spec["lr"].push_back(*r.lr);
  write_file_atomic(scratch / "spec.json", spec.dump());
  const auto result = test::run_python(fmt::format("tests/train/llama_curve.py {} {} {}", initial.string(),
                                                   (scratch / "batches").string(), (scratch / "spec.json").string()));
  ASSERT_EQ(result.exit_code, 0) << result.output;
  std::istringstream lines(result.output);
  double worst = 0;
  for (const metrics::StepRecord& r : records) {
    double theirs = 0;
    ASSERT_TRUE(lines >> theirs) << result.output;
    worst = std::max(worst, std::abs(*r.loss - theirs) / theirs);
  }
  ::testing::Test::RecordProperty("worst_relative_difference", fmt::format("{:.3g}", worst));
  EXPECT_LE(worst, 1e-3);
  EXPECT_LT(*records.back().loss, 0.5 * *records.front().loss) << "both must have learned for this to mean anything";
}

TEST(Curve, TwoHundredStepsFollowPyTorch) {
  HEARTH_NEEDS_ORACLE();
  compare_curve(false);
}

TEST(Curve, TwoHundredStepsFollowPyTorchWithTiedWeights) {
  HEARTH_NEEDS_ORACLE();
  compare_curve(true);
}

}  // namespace
}  // namespace hearth::train
