// SPDX-License-Identifier: Apache-2.0
// A training goes on from a folder of torchtitan as from a checkpoint of ours: moments, step and rate.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/load.h"
#include "convert/convert.h"
#include "convert/source.h"
#include "support/python.h"
#include "tiny_run.h"

namespace hearth::train {
namespace {

using testing::HasSubstr;

struct TorchtitanBranch : TinyData {
  config::RunConfig named(const std::string& name) const {
    config::RunConfig c = tiny_config(scratch);
    c.job.dump_folder = name;
    c.lr_scheduler.decay_type = config::DecayType::kCosine;
    c.lr_scheduler.warmup_steps = 6;  // the rate still rises at the fourth step
    return c;
  }
  // Goes on after step 4 of another training.
  config::RunConfig branch(const std::string& name, const std::string& from) const {
    config::RunConfig c = named(name);
    c.checkpoint.initial_load_path = from;
    c.checkpoint.initial_load_model_only = false;
    return c;
  }
  void to_torchtitan(const std::string& in, const std::string& out, bool resume = true) const {
    convert::ConvertProgress progress;
    convert::Options options{};
    options.in = scratch / in;
    options.out = scratch / out;
    options.to = convert::Kind::kTorchtitan;
    options.resume = resume;
    convert::convert(options, progress);
  }
};

// The branch that has the state from torchtitan's folder makes the steps of the one that has it from ours, bit by bit.
// Both begin with the first sample.
TEST_F(TorchtitanBranch, MakesTheStepsOfABranchFromOurCheckpoint) {
  HEARTH_NEEDS_ORACLE();
  for (const bool halves : {false, true}) {
    SCOPED_TRACE(halves ? "halves" : "interleaved, tied");
    const std::string kind = halves ? "halves-" : "tied-";
    const auto shaped = [&](config::RunConfig c) {
      c.model.rope_pairs = halves ? config::RopePairs::kHalves : config::RopePairs::kInterleaved;
      c.model.enable_weight_tying = !halves;
      return c;
    };
    const config::RunConfig first = shaped(named(kind + "first"));
    train(first);
    const std::string step_4 = kind + "first/checkpoints/step-00000004";
    config::RunConfig ours = shaped(branch(kind + "ours", step_4));
    ours.checkpoint.exclude_from_loading = {"dataloader"};
    const auto records = train(ours);
    ASSERT_EQ(records.size(), 8u);
    EXPECT_EQ(records[0].step, 5);

    const std::string folder = kind + "theirs/checkpoint/step-4";
    to_torchtitan(step_4, folder);
    // The rate that torchtitan would go on with.
    const test::CommandResult rate =
        test::run_python(fmt::format("tests/convert/torch_folders.py next {} {} 5", (scratch / folder).string(),
                                     (first.run_folder() / "metrics.jsonl").string()));
    EXPECT_THAT(rate.output, testing::StartsWith("equal")) << rate.output;

    // As it stands: the run file's order of pairs is that of the folder's rows.
    if (!halves) {
      const config::RunConfig theirs = shaped(branch(kind + "branch", kind + "theirs"));
      expect_same_training(records, train(theirs));
      EXPECT_TRUE(tensors_of(step_of(ours, 12)) == tensors_of(step_of(theirs, 12)));
    }
    // By way of a native checkpoint, with the run file's keys and its order of pairs.
    config::RunConfig keys = first;
    keys.model.rope_pairs = config::RopePairs::kInterleaved;
    keys.model.vocab_size = 258;
    write_file_atomic(scratch / (kind + "run.toml"), config::to_toml(keys));
    convert::ConvertProgress progress;
    convert::Options options{};
    options.in = scratch / folder;
    options.out = scratch / (kind + "native");
    options.to = convert::Kind::kNative;
    options.config = scratch / (kind + "run.toml");
    options.rope_pairs = first.model.rope_pairs;
    convert::convert(options, progress);
    config::RunConfig native = shaped(branch(kind + "native-branch", kind + "native"));
    native.model.vocab_size = 258;
    expect_same_training(records, train(native));
    EXPECT_TRUE(tensors_of(step_of(ours, 12)) == tensors_of(step_of(native, 12)));
  }
}

TEST_F(TorchtitanBranch, PartsCanBeLeftBehind) {
  train(named("first"));
  const std::string step_4 = "first/checkpoints/step-00000004";
  to_torchtitan(step_4, "theirs");
  for (const std::string& what : {std::string("optimizer"), std::string("train_state")}) {
    SCOPED_TRACE(what);
    config::RunConfig ours = branch("ours-" + what, step_4), theirs = branch("theirs-" + what, "theirs");
    ours.checkpoint.exclude_from_loading = {"dataloader", what};
    theirs.checkpoint.exclude_from_loading = {what};
    expect_same_training(train(ours), train(theirs));
    EXPECT_TRUE(tensors_of(step_of(ours, 12)) == tensors_of(step_of(theirs, 12)));
  }
}

TEST_F(TorchtitanBranch, WeightsWithoutMomentsAreRefused) {
  train(named("first"));
  to_torchtitan("first", "weights", false);
  const Error error = error_of([&] { run_training(branch("branch", "weights"), {}); });
  EXPECT_THAT(error.message(), HasSubstr("weights has no moments")) << error.what();
  EXPECT_THAT(error.fix(), HasSubstr("remove checkpoint.initial_load_model_only"));
}

// The folder does not say which order its rows have.
TEST_F(TorchtitanBranch, AnOrderOfRowsThatTorchtitanDoesNotHaveIsNamed) {
  train(named("first"));
  to_torchtitan("first", "weights", false);
  config::Model model = named("first").model;
  model.rope_pairs = config::RopePairs::kInterleaved;
  EXPECT_TRUE(convert::open_for_run(scratch / "weights", model).notes.empty());
  model.rope_pairs = config::RopePairs::kHalves;
  EXPECT_THAT(convert::open_for_run(scratch / "weights", model).notes,
              testing::ElementsAre(HasSubstr("order of model.rope_pairs = \"halves\"")));
}

// torchtitan has one count of updates for queries, keys and values, and none for a frozen weight.
TEST_F(TorchtitanBranch, AStateThatTorchtitanCannotHaveIsRefused) {
  train(named("first"));
  config::RunConfig fresh = branch("fresh", "first/checkpoints/step-00000004");
  fresh.checkpoint.fresh = {"layers.1.attention.wk"};
  train(fresh);
  EXPECT_THAT(error_of([&] { to_torchtitan("fresh", "out"); }).message(),
              HasSubstr("the moments of layers.1.attention.wq.weight have seen 12 updates, and those of "
                        "layers.1.attention.wk.weight 8"));
  config::RunConfig frozen = named("frozen");
  frozen.checkpoint.freeze = {"tok_embeddings", "norm"};
  train(frozen);
  EXPECT_THAT(error_of([&] { to_torchtitan("frozen", "out"); }).message(),
              HasSubstr("has no moments of AdamW for tok_embeddings.weight and 1 more"));
}

}  // namespace
}  // namespace hearth::train
