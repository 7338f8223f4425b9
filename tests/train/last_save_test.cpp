// SPDX-License-Identifier: Apache-2.0
// The save of the run's last step with the weights alone (checkpoint.last_save_model_only), and in Hugging Face's
// format. PyTorch and transformers read what was written.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/retain.h"
#include "checkpoint/verify.h"
#include "convert/foreign.h"
#include "infer/loaded_model.h"
#include "tiny_run.h"

namespace hearth::train {
namespace {

using testing::HasSubstr;

struct LastSave : TinyData {
  config::RunConfig run_of(const std::string& name, int64_t ranks = 1) const {
    config::RunConfig c = tiny_config(scratch);
    c.job.dump_folder = name;
    c.parallelism.data_parallel_shard_degree = ranks;
    c.training.threads = ranks;
    c.training.global_batch_size = 2 * ranks;
    c.training.local_batch_size = 1;
    return c;
  }
  static config::RunConfig weights_alone(config::RunConfig c, const std::string& name) {
    c.job.dump_folder = name;
    c.checkpoint.last_save_model_only = true;
    return c;
  }
};

TEST_F(LastSave, HasTheWeightsOfTheWholeSaveAloneOnAllRanksAtOnceAndBehind) {
  for (const int64_t ranks : {1, 3}) {
    const config::RunConfig whole = run_of(fmt::format("whole-{}", ranks), ranks);
    const auto expected = train(whole);
    for (const config::AsyncMode mode : {config::AsyncMode::kDisabled, config::AsyncMode::kAsync}) {
      config::RunConfig c = weights_alone(whole, fmt::format("alone-{}-{}", ranks, static_cast<int>(mode)));
      c.checkpoint.async_mode = mode;
      expect_same_training(train(c), expected);
      auto tensors = tensors_of(step_of(whole, 12));
      std::erase_if(tensors, [](const auto& tensor) { return tensor.first.starts_with("optimizer."); });
      EXPECT_EQ(tensors_of(step_of(c, 12)), tensors);
      EXPECT_EQ(tensors_of(step_of(c, 8)), tensors_of(step_of(whole, 8)));  // earlier saves are whole
      EXPECT_TRUE(checkpoint::verify_checkpoint(step_of(c, 12)).problems.empty());
    }
  }
}

// torch.distributed.checkpoint loads both saves and rounds the whole one itself.
TEST_F(LastSave, IsRoundedAsPyTorchRounds) {
  HEARTH_NEEDS_ORACLE();
  for (const int64_t ranks : {1, 3}) {
    const config::RunConfig whole = run_of(fmt::format("whole-{}", ranks), ranks);
    train(whole);
    config::RunConfig c = weights_alone(whole, fmt::format("alone-{}", ranks));
    c.checkpoint.export_dtype = DType::kBFloat16;
    c.checkpoint.async_mode = ranks == 1 ? config::AsyncMode::kDisabled : config::AsyncMode::kAsync;
    train(c);
    EXPECT_EQ(convert::foreign(fmt::format("rounded {} {}", step_of(whole, 12).string(), step_of(c, 12).string())),
              "equal");
    EXPECT_EQ(infer::load_model(step_of(c, 12))->manifest.step, 12);
  }
}

TEST_F(LastSave, TransformersLoadsItsCopy) {
  HEARTH_NEEDS_ORACLE();
  for (const int64_t ranks : {1, 2}) {
    config::RunConfig c = weights_alone(run_of(fmt::format("run-{}", ranks), ranks), fmt::format("run-{}", ranks));
    c.checkpoint.last_save_in_hf = true;
    c.checkpoint.async_mode = ranks == 1 ? config::AsyncMode::kDisabled : config::AsyncMode::kAsync;
    train(c);
    const std::string step = step_of(c, 12).string();
    EXPECT_EQ(convert::foreign(fmt::format("dcp {0} {0}-hf", step)), "equal");
    EXPECT_EQ(convert::foreign(fmt::format("opens {}-hf", step)), "LlamaForCausalLM torch.float32 0 missing 0 other");
    EXPECT_EQ(checkpoint::list_steps(c.checkpoint_folder()), (std::vector<int64_t>{4, 8, 12}));
    // As after a crash between the two: the next start writes what is missing, and only that.
    write_file_atomic(step + "-hf/mark", "");
    train(c);
    EXPECT_TRUE(path_exists(step + "-hf/mark"));
    remove_tree(step + "-hf");
    train(c);
    EXPECT_EQ(convert::foreign(fmt::format("dcp {0} {0}-hf", step)), "equal");
  }
}

TEST_F(LastSave, ALongerRunSaysWhatItMayDo) {
  const config::RunConfig c = weights_alone(run_of("run"), "run");
  const auto first = train(c);
  config::RunConfig longer = c;
  longer.training.steps = 16;
  longer.checkpoint.last_save_model_only = false;
  const Error error = error_of([&] { run_training(longer, {}); });
  EXPECT_EQ(error.code(), ExitCode::kUser);
  EXPECT_THAT(error.what(), HasSubstr("step-00000012 has the weights alone: the run cannot go on from it to step 16"));
  EXPECT_THAT(error.what(), HasSubstr("move step-00000012 to another folder, and the run goes on from step-00000008"));
  // The second way: a new run with these weights.
  config::RunConfig next = run_of("next");
  next.checkpoint.initial_load_path = "run/checkpoints/step-00000012";
  train(next);
  config::RunConfig branch = run_of("branch");
  branch.checkpoint.initial_load_path = next.checkpoint.initial_load_path;
  branch.checkpoint.initial_load_model_only = false;
  branch.training.steps = 16;
  EXPECT_THAT(error_of([&] { run_training(branch, {}); }).what(), HasSubstr("exclude_from_loading = [\"optimizer\"]"));
  branch.checkpoint.exclude_from_loading = {"optimizer"};
  train(branch);
  // The first one: the steps after 8 are repeated.
  rename_path(step_of(c, 12), scratch / "aside");
  const auto all = train(longer);
  config::RunConfig whole = run_of("whole");
  whole.training.steps = 16;
  expect_same_training(all, train(whole));
  EXPECT_EQ(tensors_of(step_of(longer, 16)), tensors_of(step_of(whole, 16)));
  // Without an earlier checkpoint only a new run is left.
  config::RunConfig only = weights_alone(run_of("only"), "only");
  only.checkpoint.interval = 0;
  train(only);
  only.training.steps = 16;
  EXPECT_THAT(error_of([&] { run_training(only, {}); }).what(),
              testing::AllOf(HasSubstr("fix: begin a new run with these weights"), testing::Not(HasSubstr("move"))));
}

TEST_F(LastSave, AModelThatHuggingFaceHasNoHomeForIsRefusedBeforeTheFirstStep) {
  config::RunConfig c = weights_alone(run_of("run"), "run");
  c.checkpoint.last_save_in_hf = true;
  c.model.norm_type = config::NormType::kLayerNorm;
  EXPECT_THAT(error_of([&] { run_training(c, {}); }).what(), HasSubstr("has no home in Hugging Face's formats"));
  EXPECT_FALSE(path_exists(c.run_folder()));
}

TEST_F(LastSave, DoesNotStopAStartThatHasNothingToDo) {
  const config::RunConfig c = weights_alone(run_of("run"), "run");
  const auto records = train(c);
  testing::internal::CaptureStdout();
  expect_same_training(train(c), records);
  EXPECT_THAT(testing::internal::GetCapturedStdout(),
              HasSubstr("12 of 12 steps are done; the last save has the weights alone"));
}

}  // namespace
}  // namespace hearth::train
