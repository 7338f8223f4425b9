// SPDX-License-Identifier: Apache-2.0
// A save that fails, anywhere, leaves what was there before.
#include "checkpoint/save.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.h"
#include "checkpoint/retain.h"
#include "checkpoint/verify.h"
#include "example.h"
#include "support/failpoint.h"

namespace hearth::checkpoint {
namespace {

using testing::HasSubstr;

// The state at a step: other values at other steps.
std::vector<ExampleTensor> state_at(int64_t step) {
  std::vector<ExampleTensor> tensors = {example_tensor("norm", DType::kInt64, {5}),
                                        example_tensor("layers.0.wq", DType::kFloat32, {3, 2})};
  std::memcpy(tensors[0].bytes.data(), &step, sizeof step);
  return tensors;
}

int64_t first_value(const Path& folder) {
  Reader reader = Reader::open(folder);
  int64_t value = 0;
  reader.read("norm", {{0}, {1}}, std::as_writable_bytes(std::span(&value, 1)));
  return value;
}

void save_state(const Path& checkpoints, int64_t step, int64_t value) {
  save_example(checkpoints, state_at(value), step, 2);
}

// Calls `body` again and again: each time the next of its disk calls fails, until none does. `check` looks at what is
// left.
int64_t with_every_failure(int error_number, const std::function<void()>& prepare, const std::function<void()>& body,
                           const std::function<void(bool failed)>& check) {
  for (int64_t nth = 1;; ++nth) {
    prepare();
    bool failed = false;
    failpoint::arm(nth, error_number);
    try {
      body();
    } catch (const Error& e) {
      failed = true;
      EXPECT_EQ(e.code(), ExitCode::kHardware) << e.what();
    }
    const bool reached = failpoint::calls() >= nth;
    failpoint::disarm();
    check(failed);
    if (!reached || testing::Test::HasFatalFailure()) return nth - 1;
  }
}

class SaveFails : public testing::TestWithParam<int> {};

TEST_P(SaveFails, AtAnyDiskCallOfANewStepAndTheLastGoodOneSurvives) {
  std::unique_ptr<test::ScratchFolder> scratch;
  const int64_t calls = with_every_failure(
      GetParam(),
      [&] {
        scratch = std::make_unique<test::ScratchFolder>();
        save_state(*scratch, 100, 1);
      },
      [&] { save_state(*scratch, 200, 2); },
      [&](bool failed) {
        // Nothing under a final name is ever half a checkpoint, before and after cleaning up.
        for (int pass = 0; pass < 2; ++pass) {
          const NewestGood found = newest_good(*scratch);
          ASSERT_TRUE(found.damaged.empty());
          ASSERT_TRUE(found.step.has_value());
          if (!failed) {
            ASSERT_EQ(*found.step, 200);
          }
          ASSERT_EQ(first_value(found.folder), *found.step / 100);
          remove_leftovers(*scratch);
        }
        ASSERT_EQ(list_folder(*scratch).size(), list_steps(*scratch).size());
        // The next try succeeds.
        save_state(*scratch, 200, 3);
        ASSERT_EQ(newest_good(*scratch).step, 200);
        ASSERT_EQ(first_value(*scratch / "step-00000200"), 3);
      });
  EXPECT_GT(calls, 15);
}

TEST_P(SaveFails, AtAnyDiskCallOfAStepSavedAgainAndTheOldOrTheNewSurvives) {
  std::unique_ptr<test::ScratchFolder> scratch;
  const int64_t calls = with_every_failure(
      GetParam(),
      [&] {
        scratch = std::make_unique<test::ScratchFolder>();
        save_state(*scratch, 100, 1);
      },
      [&] { save_state(*scratch, 100, 2); },
      [&](bool failed) {
        remove_leftovers(*scratch);
        const NewestGood found = newest_good(*scratch);
        ASSERT_EQ(found.step, 100);
        ASSERT_TRUE(found.damaged.empty());
        const int64_t value = first_value(found.folder);
        ASSERT_TRUE(value == 2 || (failed && value == 1)) << value;
        ASSERT_EQ(list_folder(*scratch), std::vector<std::string>{"step-00000100"});
      });
  EXPECT_GT(calls, 18);
}

TEST_P(SaveFails, AtAnyDiskCallOfPruningAndTheKeptOnesSurvive) {
  std::unique_ptr<test::ScratchFolder> scratch;
  bool half_deleted = false;  // seen under a name that is no checkpoint's
  const int64_t calls = with_every_failure(
      GetParam(),
      [&] {
        scratch = std::make_unique<test::ScratchFolder>();
        for (int64_t step = 1; step <= 4; ++step) save_state(*scratch, step, step);
      },
      [&] { prune(*scratch, {.latest_k = 2}, 4); },
      [&](bool) {
        const NewestGood found = newest_good(*scratch);
        ASSERT_EQ(found.step, 4);
        for (const int64_t step : list_steps(*scratch))
          ASSERT_TRUE(verify_checkpoint(step_folder(*scratch, step)).problems.empty()) << step;
        half_deleted = half_deleted || path_exists(*scratch / "step-00000001.deleted/hearth.json");
        remove_leftovers(*scratch);
        prune(*scratch, {.latest_k = 2}, 4);
        ASSERT_EQ(list_folder(*scratch), (std::vector<std::string>{"step-00000003", "step-00000004"}));
      });
  EXPECT_GT(calls, 6);
  EXPECT_TRUE(half_deleted);
}
INSTANTIATE_TEST_SUITE_P(DiskFullAndBroken, SaveFails, testing::Values(ENOSPC, EIO));

// The last moment to leave a save: another start of the training has the folder.
TEST(Save, ThatIsForbiddenAtTheEndLeavesTheOldCheckpointAndIsRemovedByTheNextStart) {
  const test::ScratchFolder scratch;
  save_state(scratch, 1, 7);
  const Path temporary = temporary_folder(scratch, 1, {.start = 3});
  EXPECT_EQ(temporary.filename(), "step-00000001.3.tmp");
  begin_save(temporary);
  const std::vector<std::string> items = {write_rank_file(temporary, 0, flat_pieces(state_at(8), 0, 1))};
  EXPECT_THROW(commit(temporary, step_folder(scratch, 1), items, example_manifest(1, 1),
                      [] { throw user_error("replaced", "", ""); }),
               Error);
  EXPECT_EQ(first_value(step_folder(scratch, 1)), 7);
  EXPECT_EQ(remove_leftovers(scratch), std::vector<std::string>{"step-00000001.3.tmp"});
  EXPECT_FALSE(path_exists(temporary));
  EXPECT_EQ(first_value(step_folder(scratch, 1)), 7);
}

// A start is stopped between its last look at the lease and its rename. Meanwhile another one has taken the folder and
// saved the same step. The first one wakes up: it takes nothing away, whether or not the step was there before.
TEST(Save, ThatWakesUpAfterAnotherStartTookTheFolderChangesNothing) {
  for (const bool was_saved_before : {false, true}) {
    const test::ScratchFolder scratch;
    if (was_saved_before) save_state(scratch, 1, 6);
    const Path temporary = temporary_folder(scratch, 1, {.start = 3});
    begin_save(temporary);
    const std::vector<std::string> items = {write_rank_file(temporary, 0, flat_pieces(state_at(8), 0, 1))};
    std::string theirs;
    EXPECT_THROW(commit(temporary, step_folder(scratch, 1), items, example_manifest(1, 1),
                        [&] {
                          EXPECT_THAT(remove_leftovers(scratch), testing::ElementsAre("step-00000001.3.tmp"));
                          save_state(scratch, 1, 7);
                          theirs = read_file(step_folder(scratch, 1) / kManifestFile);
                        }),
                 Error);
    EXPECT_EQ(list_steps(scratch), (std::vector<int64_t>{1}));
    EXPECT_EQ(read_file(step_folder(scratch, 1) / kManifestFile), theirs);
    EXPECT_TRUE(verify_checkpoint(step_folder(scratch, 1)).problems.empty());
    EXPECT_TRUE(remove_leftovers(scratch).empty());
  }
}

TEST(Save, OfTheSameStateGivesTheSameBytesAndTheOrderOfRanksDoesNotMatter) {
  const test::ScratchFolder scratch;
  save_state(scratch, 1, 7);
  save_state(scratch, 2, 7);
  for (const char* name : {"__R_0.distcp", "__R_1.distcp", ".metadata"})
    EXPECT_EQ(read_file(scratch / "step-00000001" / name), read_file(scratch / "step-00000002" / name));

  const Path temporary = temporary_folder(scratch, 3);
  begin_save(temporary);
  std::vector<std::string> items(2);
  for (const int64_t rank : {1, 0})
    items[static_cast<size_t>(1 - rank)] = write_rank_file(temporary, rank, flat_pieces(state_at(7), rank, 2));
  commit(temporary, step_folder(scratch, 3), items, example_manifest(3, 2));
  EXPECT_EQ(read_file(scratch / "step-00000001/.metadata"), read_file(scratch / "step-00000003/.metadata"));
}

TEST(Save, WithAPieceMissingOrGivenTwiceNeverBecomesACheckpoint) {
  const test::ScratchFolder scratch;
  const Path temporary = temporary_folder(scratch, 3);
  begin_save(temporary);
  const std::vector<std::string> one = {write_rank_file(temporary, 0, flat_pieces(state_at(7), 0, 2))};
  const std::vector<std::string> twice = {one[0], one[0],
                                          write_rank_file(temporary, 1, flat_pieces(state_at(7), 1, 2))};
  for (const std::vector<std::string>& items : {one, twice}) {
    try {
      commit(temporary, step_folder(scratch, 3), items, example_manifest(3, 2));
      FAIL();
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::kBug);
    }
    EXPECT_TRUE(list_steps(scratch).empty());
  }
}

TEST(Save, ARankWithoutPiecesWritesNoFile) {
  const test::ScratchFolder scratch;
  const Path temporary = temporary_folder(scratch, 3);
  begin_save(temporary);
  const std::vector<std::string> items = {write_rank_file(temporary, 0, flat_pieces(state_at(7), 0, 1)),
                                          write_rank_file(temporary, 1, {})};
  commit(temporary, step_folder(scratch, 3), items, example_manifest(3, 2));
  EXPECT_EQ(list_folder(scratch / "step-00000003"),
            (std::vector<std::string>{".metadata", "__R_0.distcp", "hearth.json"}));
}

TEST(Save, IntoAReadOnlyFolderIsAUserError) {
  const test::ScratchFolder scratch;
  ASSERT_EQ(::chmod(scratch.path().c_str(), 0555), 0);
  // Root may write anywhere: become an ordinary user for a moment.
  const bool root = ::geteuid() == 0;
  ASSERT_TRUE(!root || ::seteuid(65534) == 0);
  try {
    save_state(scratch, 1, 1);
    ADD_FAILURE() << "it was saved";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::kUser);
    EXPECT_THAT(e.message(), HasSubstr("step-00000001.tmp"));
  }
  ASSERT_TRUE(!root || ::seteuid(0) == 0);
  ASSERT_EQ(::chmod(scratch.path().c_str(), 0755), 0);
}

}  // namespace
}  // namespace hearth::checkpoint
