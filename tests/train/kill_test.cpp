// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "kills.h"

namespace hearth::train {
namespace {

class Kill : public testing::TestWithParam<config::AsyncMode> {};

TEST_P(Kill, FiveKillsAtRandomMomentsChangeNothing) {
  test::ScratchFolder scratch;
  build_tiny_data(scratch);
  config::RunConfig c = tiny_config(scratch);
  c.training.steps = 30;
  c.checkpoint.interval = 3;
  c.checkpoint.keep_latest_k = 3;
  c.validation.freq = 10;
  c.job.dump_folder = "whole";
  const auto expected = train(c);
  const auto tensors = tensors_of(step_of(c, 30));

  c.job.dump_folder = "killed";
  c.checkpoint.async_mode = GetParam();
  EXPECT_EQ(train_with_kills(c, 5, 1), 5) << "the run ended before it could be killed that often";
  expect_same_training(metrics::read_metrics(c.run_folder() / "metrics.jsonl"), expected);
  EXPECT_EQ(tensors_of(step_of(c, 30)), tensors);
}

INSTANTIATE_TEST_SUITE_P(Saving, Kill, testing::Values(config::AsyncMode::kDisabled, config::AsyncMode::kAsync),
                         [](const auto& mode) { return std::string(config::name_of(mode.param)); });

}  // namespace
}  // namespace hearth::train
