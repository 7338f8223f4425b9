// SPDX-License-Identifier: Apache-2.0
// Whole states of trainings between torchtitan's folders and Hearth: every bit of weights and moments, every setting.
#include "checkpoint/retain.h"
#include "runfolder/run_checkpoints.h"
#include "torch_folders.h"

namespace hearth::convert {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(TrainingState, OfTorchtitanKeepsItsBitsThroughHearth) {
  HEARTH_NEEDS_ORACLE();
  expect_state_kept({"2026", 1, 1, "float32", false});
}

TEST(TrainingState, OfTorchtitan2025KeepsItsBitsThroughHearth) {
  HEARTH_NEEDS_ORACLE();
  expect_state_kept({"2025", 1, 1, "bfloat16", true});
}

// One folder with moments, made once.
const std::string& theirs() {
  static const test::ScratchFolder scratch;
  static const std::string folder = [] {
    torch_folders(fmt::format("make {}/run/checkpoint/step-3 2026 1 1 float32 0", scratch.path().string()));
    write_text(scratch / "run.toml", run_file_of_torch(false));
    return scratch.path().string();
  }();
  return folder;
}

TEST(TrainingState, ARunsFolderOfTorchtitanStandsForItsNewestStep) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  const std::string in = theirs() + "/run", at = scratch.path().string();
  EXPECT_EQ(runfolder::find_checkpoint(in), in + "/checkpoint/step-3");
  converted(fmt::format("--to native --config {}/run.toml {} {}/native", theirs(), in, at));
  EXPECT_EQ(checkpoint::Reader::open(at + "/native").manifest().step, 3);
}

// The folder of torchtitan 0.3 joins moments: without the numbers of heads they cannot be split.
TEST(TrainingState, WithoutARunFileOnlyTheWeightsBecomeAnotherFolderOfPyTorch) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  const std::string in = theirs() + "/run", at = scratch.path().string(), run = theirs() + "/run.toml";
  EXPECT_THAT(converted(fmt::format("--to dcp {} {}/dcp", in, at)),
              HasSubstr("of a training's state left behind, such as optimizer."));
  EXPECT_THAT(test::run_hearth(fmt::format("inspect {}/dcp", at)).output, HasSubstr("other state  0 B"));
  converted(fmt::format("--to hf --config {} {} {}/truth", run, in, at));
  converted(fmt::format("--to hf --config {0} {1}/dcp {1}/hf", run, at));
  EXPECT_EQ(read_file(at + "/hf/model.safetensors"), read_file(at + "/truth/model.safetensors"));
}

// Queries and keys of the other order of pairs: their moments move with them, and back.
TEST(TrainingState, MomentsFollowTheOrderOfPairs) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  const std::string in = theirs() + "/run/checkpoint/step-3", at = scratch.path().string();
  converted(fmt::format("--to native --rope-pairs halves --config {0}/run.toml {1} {2}/halves", theirs(), in, at));
  EXPECT_THAT(torch_folders(fmt::format("native {}/halves {}", at, in)), HasSubstr("attention.w"));
  converted(fmt::format("--to torchtitan --resume {0}/halves {0}/back", at));
  EXPECT_EQ(torch_folders(fmt::format("same {} {}/back dataloader", in, at)), "equal");
  // Native checkpoints keep the state among themselves, too.
  converted(fmt::format("--to native --rope-pairs interleaved {0}/halves {0}/interleaved", at));
  EXPECT_EQ(torch_folders(fmt::format("native {}/interleaved {}", at, in)), "equal");
}

TEST(TrainingState, WithoutAHomeIsAnError) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  const std::string in = theirs() + "/run", at = scratch.path().string(), run = theirs() + "/run.toml";
  converted(fmt::format("--to native --config {} {} {}/native", run, in, at));
  for (const char* to : {"native", "dcp", "hf", "meta"}) {
    EXPECT_THAT(refused(fmt::format("--to {1} --resume {0}/native {0}/out", at, to)),
                HasSubstr(fmt::format("--resume does not go with --to {}", to)));
  }
  EXPECT_THAT(refused(fmt::format("--to torchtitan --resume {0}/native {0}/step-00000003", at)),
              HasSubstr("give " + at + "/step-3"));
  converted(fmt::format("--to hf {0}/native {0}/hf", at));
  EXPECT_THAT(refused(fmt::format("--to torchtitan --resume {0}/hf {0}/out", at)),
              HasSubstr("has no state of a training for --resume"));
  // Without --resume: the weights alone.
  EXPECT_THAT(converted(fmt::format("--to torchtitan {0}/native {0}/weights", at)), HasSubstr("weights only: "));
  EXPECT_THAT(refused(fmt::format("--to torchtitan --resume --config {1} {0}/weights {0}/out", at, run)),
              HasSubstr("has no state of a training for --resume"));
  // The run file is another model's.
  write_text(scratch / "other.toml", run_file_of_torch(false));
  edit(scratch / "other.toml", "n_kv_heads = 2", "n_kv_heads = 3");
  EXPECT_THAT(refused(fmt::format("--to native --config {0}/other.toml {1} {0}/out", at, in)),
              HasSubstr("has 80 rows, and the queries, keys and values of [model] have 96"));
  // The rate depends on a length that only the data have. A folder of torchtitan has the rate itself.
  write_text(scratch / "epochs.toml", run_file_of_torch(false));
  edit(scratch / "epochs.toml", "steps = 10", "epochs = 2");
  converted(fmt::format("--to torchtitan --resume --config {0}/epochs.toml {1} {0}/known", at, in));
  converted(fmt::format("--to native --config {0}/epochs.toml {1} {0}/in-epochs", at, in));
  EXPECT_THAT(refused(fmt::format("--to torchtitan --resume {0}/in-epochs {0}/out", at)),
              HasSubstr("the next step's learning rate is not known"));
}

TEST(TrainingState, WhatTorchtitanTakesOtherwiseIsSaid) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  const std::string in = theirs() + "/run", at = scratch.path().string();
  EXPECT_THAT(converted(fmt::format("--to torchtitan --resume --config {}/run.toml {} {}/alike", theirs(), in, at)),
              testing::AllOf(HasSubstr("checkpoint/step-3"), HasSubstr("exclude_from_loading"),
                             Not(HasSubstr("weights differ in decay"))));
  write_text(scratch / "run.toml", run_file_of_torch(false));
  edit(scratch / "run.toml", "weight_decay_on = \"all\"", "form = \"transformers\"");
  EXPECT_THAT(
      converted(fmt::format("--to torchtitan --resume --config {0}/run.toml {1} {0}/other", at, in)),
      testing::AllOf(HasSubstr("weights differ in decay or rate"), HasSubstr("optimizer.form = \"transformers\"")));
}

TEST(TrainingState, DamageIsNamed) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  const std::string in = theirs() + "/run/checkpoint/step-3", at = scratch.path().string();
  // The counts are the last entries of the only file.
  std::filesystem::copy(in, scratch / "cut");
  const Path file = scratch / "cut/__0_0.distcp";
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 2000);
  EXPECT_THAT(refused(fmt::format("--to native --config {}/run.toml {}/cut {}/out", theirs(), at, at), 3),
              HasSubstr("cut short"));
  // A step that is no count.
  write_text(scratch / "steps.py", R"(
import sys, torch, torch.distributed.checkpoint as dcp
sys.path.insert(0, sys.argv[3])
from torch_folders import loaded
state = loaded(sys.argv[1])
dcp.save(state | {'train_state.step': -1}, checkpoint_id=sys.argv[2] + '/negative', no_dist=True)
state['optimizer.state.norm.weight.step'] = torch.tensor(0.5)
dcp.save(state, checkpoint_id=sys.argv[2] + '/half', no_dist=True)
)");
  const test::CommandResult made =
      test::run_python(fmt::format("{0}/steps.py {1} {0} {2}", at, in, test::source_path("tests/convert")));
  ASSERT_EQ(made.exit_code, 0) << made.output;
  EXPECT_THAT(refused(fmt::format("--to native --config {0}/run.toml {1}/negative {1}/out", theirs(), at), 3),
              HasSubstr("train_state.step is -1"));
  EXPECT_THAT(refused(fmt::format("--to native --config {0}/run.toml {1}/half {1}/out", theirs(), at), 3),
              HasSubstr("optimizer.state.norm.weight.step is 0.5"));
}

}  // namespace
}  // namespace hearth::convert
