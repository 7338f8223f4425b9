// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/retain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "example.h"
#include "runfolder/run_checkpoints.h"
#include "support/errors.h"

namespace hearth::checkpoint {
namespace {

using testing::HasSubstr;

std::vector<ExampleTensor> tiny() { return {example_tensor("w", DType::kFloat32, {2})}; }

TEST(Retain, StepsAreFoldersWithAFinalNameInOrder) {
  const test::ScratchFolder scratch;
  EXPECT_TRUE(list_steps(scratch / "missing").empty());
  for (const char* name : {"step-00000020", "step-00000003", "step-123456789", "step-00000004.tmp", "step-5",
                           "step-000000006", "step--0000001", "step-0000000x", "other"})
    make_folders(scratch / name);
  write_file_atomic(scratch / "step-00000007", "a file");
  EXPECT_EQ(list_steps(scratch), (std::vector<int64_t>{3, 20, 123456789}));
}

TEST(Retain, WithoutAnyCheckpointThereIsNoNewest) {
  const test::ScratchFolder scratch;
  EXPECT_FALSE(newest_good(scratch / "missing").step.has_value());
  EXPECT_FALSE(newest_good(scratch).step.has_value());
}

TEST(Retain, ACheckpointIsFoundByItsOwnFolderThatOfAllOrTheRun) {
  const test::ScratchFolder scratch;
  for (const int64_t step : {3, 20}) save_example(scratch / "checkpoints", tiny(), step, 1);
  const Path newest = scratch / "checkpoints/step-00000020", older = scratch / "checkpoints/step-00000003";
  EXPECT_EQ(runfolder::find_checkpoint(older), older);
  EXPECT_EQ(runfolder::find_checkpoint(scratch / "checkpoints"), newest);
  EXPECT_EQ(runfolder::find_checkpoint(scratch.path()), newest);
  make_folders(scratch / "pytorch");
  write_file_atomic(scratch / "pytorch/.metadata", "");
  EXPECT_EQ(runfolder::find_checkpoint(scratch / "pytorch"), scratch / "pytorch");
  const auto problem = [](const Path& folder) {
    return test::error_of([&] { runfolder::find_checkpoint(folder); }).message();
  };
  make_folders(scratch / "empty");
  EXPECT_EQ(problem(scratch / "empty"), (scratch / "empty").string() + " is not a checkpoint");
  EXPECT_EQ(problem(scratch / "nowhere"), "there is no folder " + (scratch / "nowhere").string());
  // The advice is a command line of `hearth convert`: options, IN, OUT.
  const Path hugging_face = scratch / "from the hub";
  make_folders(hugging_face);
  write_file_atomic(hugging_face / "config.json", "{}");
  EXPECT_EQ(test::error_of([&] { runfolder::find_checkpoint(hugging_face); }).fix(),
            fmt::format("`hearth convert --to native '{}' FOLDER` makes one", hugging_face.string()));
}

TEST(Retain, ACheckpointIsFoundInTheFolderThatTheRunNames) {
  const test::ScratchFolder scratch;
  const Path run = scratch / "run", elsewhere = scratch / "elsewhere";
  make_folders(run);
  for (const std::string& name : {std::string("mine"), elsewhere.string()}) {
    write_file_atomic(run / "config.toml", fmt::format("[checkpoint]\nfolder = \"{}\"\n", name));
    EXPECT_FALSE(runfolder::checkpoint_in(run).has_value());
    const Path checkpoints = join_path(run, name);
    save_example(checkpoints, tiny(), 7, 1);
    EXPECT_EQ(runfolder::find_checkpoint(run), checkpoints / "step-00000007");
    EXPECT_EQ(runfolder::checkpoints_of(run), checkpoints);
  }
}

// torchtitan writes no zeros in front, and `.metadata` last.
TEST(Retain, ARunOfTorchtitanHasItsNewestWholeStep) {
  const test::ScratchFolder scratch;
  for (const char* step : {"step-9", "step-10"}) {
    make_folders(scratch / "checkpoint" / step);
    write_file_atomic(scratch / "checkpoint" / step / ".metadata", "");
  }
  for (const char* other : {"step-11", "step-012", "step-12-hf"}) make_folders(scratch / "checkpoint" / other);
  write_file_atomic(scratch / "checkpoint/step-012/.metadata", "");
  write_file_atomic(scratch / "checkpoint/step-12-hf/.metadata", "");
  EXPECT_EQ(runfolder::find_checkpoint(scratch.path()), scratch / "checkpoint/step-10");
  EXPECT_EQ(runfolder::find_checkpoint(scratch / "checkpoint"), scratch / "checkpoint/step-10");
  // They are no checkpoints of a run of ours.
  EXPECT_TRUE(list_steps(scratch / "checkpoint").empty());
  // Our folder comes first.
  save_example(scratch / "checkpoints", tiny(), 3, 1);
  EXPECT_EQ(runfolder::find_checkpoint(scratch.path()), scratch / "checkpoints/step-00000003");
}

TEST(Retain, PruningKeepsTheNewestAndTheVerifiedOne) {
  const test::ScratchFolder scratch;
  for (const int64_t step : {1, 2, 3, 4, 5}) save_example(scratch, tiny(), step, 1);
  EXPECT_TRUE(prune(scratch, {}, 5).empty());
  EXPECT_TRUE(prune(scratch, {.latest_k = 9}, 5).empty());
  EXPECT_EQ(prune(scratch, {.latest_k = 3}, 5), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(list_steps(scratch), (std::vector<int64_t>{3, 4, 5}));
  // Resumed from 4, because 5 is damaged: 5 does not push 4 out.
  EXPECT_EQ(prune(scratch, {.latest_k = 1}, 4), (std::vector<int64_t>{3}));
  EXPECT_EQ(list_steps(scratch), (std::vector<int64_t>{4, 5}));
  EXPECT_EQ(newest_good(scratch).step, 5);
}

TEST(Retain, WhatAnyRuleKeepsIsKept) {
  const test::ScratchFolder scratch;
  const std::vector<int64_t> steps = {10, 20, 30, 40, 50, 60};
  for (const int64_t step : steps) {
    const double loss = step == 20 ? 1.5 : step == 50 ? 1.25 : 3;
    save_example(scratch, tiny(), step, 1, std::map<std::string, double>{{"validation_loss", loss}});
  }
  const auto deleted = [&](const KeepRules& rules) { return steps_to_delete(list_checkpoints(scratch), rules); };
  using Steps = std::vector<int64_t>;
  EXPECT_EQ(deleted({.latest_k = 1}), (Steps{10, 20, 30, 40, 50}));
  EXPECT_EQ(deleted({.latest_k = 1, .every = 20}), (Steps{10, 30, 50}));
  EXPECT_EQ(deleted({.latest_k = 1, .best = 1}), (Steps{10, 20, 30, 40}));
  EXPECT_EQ(deleted({.latest_k = 1, .best = 2}), (Steps{10, 30, 40}));
  EXPECT_EQ(deleted({.latest_k = 1, .steps = {10, 15}}), (Steps{20, 30, 40, 50}));
  EXPECT_EQ(deleted({.latest_k = 2, .every = 30, .best = 1, .steps = {10}}), (Steps{20, 40}));
  EXPECT_TRUE(deleted({.every = 30}).empty()) << "without latest_k all are kept";
  // A damaged manifest, and one without a validation loss, are not among the best.
  write_file_atomic(step_folder(scratch, 50) / kManifestFile, "{}");
  save_example(scratch, tiny(), 20, 1, std::map<std::string, double>{});
  EXPECT_EQ(deleted({.latest_k = 1, .best = 1}), (Steps{20, 30, 40, 50}));
  EXPECT_EQ(prune(scratch, {.latest_k = 1, .every = 20}, 60), (Steps{10, 30, 50}));
  EXPECT_EQ(list_steps(scratch), (Steps{20, 40, 60}));
}

TEST(Retain, LeftoversOfInterruptedSavesAndDeletionsAreRemoved) {
  const test::ScratchFolder scratch;
  save_example(scratch, tiny(), 1, 1);
  for (const char* name : {"step-00000002.tmp", "step-00000000.deleted", "step-00000001.replaced", "notes.tmp"})
    make_folders(scratch / name / "inside");
  EXPECT_EQ(remove_leftovers(scratch),
            (std::vector<std::string>{"step-00000000.deleted", "step-00000001.replaced", "step-00000002.tmp"}));
  EXPECT_EQ(list_folder(scratch), (std::vector<std::string>{"notes.tmp", "step-00000001"}));
  EXPECT_TRUE(remove_leftovers(scratch / "missing").empty());
}

TEST(Retain, ACheckpointWhoseReplacementWasInterruptedComesBack) {
  const test::ScratchFolder scratch;
  const Path folder = save_example(scratch, tiny(), 1, 1);
  rename_path(folder, scratch / "step-00000001.replaced");
  EXPECT_FALSE(newest_good(scratch).step.has_value());
  remove_leftovers(scratch);
  EXPECT_EQ(newest_good(scratch).step, 1);
}

TEST(Retain, ANewerFormatStopsTheSearchInsteadOfGoingBack) {
  const test::ScratchFolder scratch;
  save_example(scratch, tiny(), 1, 1);
  const Path folder = save_example(scratch, tiny(), 2, 1);
  write_file_atomic(folder / kManifestFile, with_format_version(read_file(folder / kManifestFile), '9'));
  try {
    newest_good(scratch);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::kUser);
    EXPECT_THAT(e.message(), HasSubstr("checkpoint format 9"));
  }
}

}  // namespace
}  // namespace hearth::checkpoint
