// SPDX-License-Identifier: Apache-2.0
// Checkpoints in a store: whole or absent, whatever happens to a request.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/object_file.h"
#include "checkpoint/example.h"
#include "checkpoint/retain.h"
#include "checkpoint/verify.h"
#include "runfolder/run_checkpoints.h"
#include "s3_server.h"
#include "saves.h"
#include "support/errors.h"
#include "support/hearth_command.h"

namespace hearth::checkpoint {
namespace {

using test::error_of;
using test::S3Server;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(StoredCheckpoint, HoldsTheStateAndIsPyTorchsToo) {
  HEARTH_NEEDS_STORE();
  const Path checkpoints = kStore / "plain";
  EXPECT_EQ(save(checkpoints, 100, {.start = 3, .save = 2}).filename(), "step-00000100.3.2");
  EXPECT_THAT(list_folder(step_folder(checkpoints, 100)),
              ElementsAre(".metadata", "__R_0.distcp", "__R_1.distcp", "hearth.json"));
  expect_state(step_folder(checkpoints, 100), 100);
  const Verification whole = verify_checkpoint(step_folder(checkpoints, 100));
  EXPECT_THAT(whole.problems, IsEmpty());
  EXPECT_EQ(whole.tensors, 7);

  // PyTorch reads the same files.
  const test::ScratchFolder scratch;
  write_raw(scratch / "raw", example_tensors());
  const std::string names =
      run_python(scratch, R"(
import sys, torch, torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.metadata import TensorStorageMetadata
folder, raw = sys.argv[1:]
metadata = dcp.FileSystemReader(folder).read_metadata().state_dict_metadata
state = {n: torch.empty(m.size, dtype=m.properties.dtype) for n, m in metadata.items() if isinstance(m, TensorStorageMetadata)}
dcp.load(state, storage_reader=dcp.FileSystemReader(folder))
for name, tensor in sorted(state.items()):
    if name == "cube": continue
    data = open(f"{raw}/{name}.bin", "rb").read()
    assert tensor.flatten().view(torch.uint8).numpy().tobytes() == data, name
    print(name)
)",
                 S3Server::get().folder("plain/step-00000100.3.2").string() + " " + (scratch / "raw").string());
  EXPECT_EQ(std::count(names.begin(), names.end(), '\n'), 6);
}

TEST(StoredCheckpoint, ASecondSaveOfAStepReplacesTheFirst) {
  HEARTH_NEEDS_STORE();
  const Path checkpoints = kStore / "again";
  save(checkpoints, 5, {.start = 1, .save = 9});
  save(checkpoints, 5, {.start = 2, .save = 1});
  expect_state(step_folder(checkpoints, 5), 5);
  EXPECT_THAT(list_folder(checkpoints), ElementsAre("step-00000005.2.1"));
  // A run whose own folder is new does not begin with 1 here.
  EXPECT_EQ(unused_start(checkpoints, 1), 3);
  EXPECT_EQ(unused_start(checkpoints, 7), 7);
  // A person names the step alone.
  EXPECT_EQ(runfolder::find_checkpoint(checkpoints / "step-00000005").filename(), "step-00000005.2.1");
  EXPECT_EQ(runfolder::find_checkpoint(checkpoints).filename(), "step-00000005.2.1");
}

// A start that was replaced and comes back: it neither replaces the newer one's checkpoint nor damages it.
TEST(StoredCheckpoint, ALateWriterChangesNothing) {
  HEARTH_NEEDS_STORE();
  const Path checkpoints = kStore / "late", folder = temporary_folder(checkpoints, 8, {.start = 1, .save = 1});
  begin_save(folder);  // start 1 begins, and is cut off
  std::vector<std::string> items = {write_rank_file(folder, 0, flat_pieces(state_at(8), 0, 2))};
  const Path newer = save(checkpoints, 8, {.start = 2, .save = 1});
  items.push_back(write_rank_file(folder, 1, flat_pieces(state_at(8), 1, 2)));
  // Its lease tells it.
  const auto lost = [] { throw Error(ExitCode::kHardware, "start 2 has the lease"); };
  EXPECT_THAT(error_of([&] { commit(folder, folder, items, example_manifest(8, 2), lost); }).what(),
              HasSubstr("lease"));
  // And if the lease had not, its part is gone: the newer one took its place.
  EXPECT_THAT(error_of([&] { commit(folder, folder, items, example_manifest(8, 2)); }).what(),
              HasSubstr("__R_0.distcp is missing"));
  EXPECT_EQ(newest_good(checkpoints).folder, newer);
  expect_state(newer, 8);
  // Nobody replaces an object.
  EXPECT_THAT(error_of([&] { put_new_object(newer / kManifestFile, "late"); }).what(), HasSubstr("another writer"));
}

// Another process looks while a save is under way, or a late request has brought back a file of a killed one.
TEST(StoredCheckpoint, ASaveUnderWayIsNoCheckpoint) {
  HEARTH_NEEDS_STORE();
  const Path checkpoints = kStore / "under-way", good = save(checkpoints, 3, {.start = 1, .save = 1});
  for (const int64_t step : {3, 4})
    write_rank_file(temporary_folder(checkpoints, step, {.start = 2, .save = step}), 0, flat_pieces(state_at(8), 0, 2));
  EXPECT_THAT(list_steps(checkpoints), ElementsAre(3));
  EXPECT_EQ(runfolder::find_checkpoint(checkpoints), good);
  EXPECT_EQ(runfolder::find_checkpoint(checkpoints / "step-00000003"), good);
  const NewestGood found = newest_good(checkpoints);
  EXPECT_EQ(found.folder, good);
  EXPECT_TRUE(found.damaged.empty());
  EXPECT_EQ(unused_start(checkpoints, 1), 3);
}

TEST(StoredCheckpoint, PruneAndLeftovers) {
  HEARTH_NEEDS_STORE();
  const Path checkpoints = kStore / "kept";
  for (const int64_t step : {1, 2, 3, 4}) save(checkpoints, step);
  EXPECT_THAT(list_steps(checkpoints), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(prune(checkpoints, {.latest_k = 1, .every = 2}, 4), ElementsAre(1, 3));
  EXPECT_THAT(list_steps(checkpoints), ElementsAre(2, 4));
  // An interrupted save or deletion has no hearth.json.
  remove_file(step_folder(checkpoints, 4) / kManifestFile);
  // A store that does not delete it does no harm: it is no checkpoint.
  std::vector<Error> refusals;
  test::S3Server::get().set_faults("DELETE step-00000004 1 999 400");
  EXPECT_THAT(remove_leftovers(checkpoints, &refusals), testing::IsEmpty());
  test::S3Server::get().set_faults("");
  ASSERT_EQ(refusals.size(), 1U);
  EXPECT_THAT(refusals[0].message(), HasSubstr("cannot remove s3://bucket/kept/step-00000004."));
  EXPECT_EQ(newest_good(checkpoints).step, 2);
  EXPECT_THAT(remove_leftovers(checkpoints), ElementsAre(testing::StartsWith("step-00000004.")));
  EXPECT_THAT(list_steps(checkpoints), ElementsAre(2));
  EXPECT_EQ(newest_good(checkpoints).step, 2);
}

// A long training keeps many checkpoints for good. They cost its saves nothing, and who lists them asks once about
// each.
TEST(StoredCheckpoint, RequestsDoNotMultiplyWithTheNumberOfCheckpoints) {
  HEARTH_NEEDS_STORE();
  const Path checkpoints = kStore / "many";
  const auto requests_of = [](const auto& work) {
    S3Server::get().take_log();
    work();
    return std::ssize(S3Server::get().take_log());
  };
  struct Count {
    int64_t prune_none, prune, prune_best, step_folder, list;
  };
  std::vector<Count> counts;  // with 4, 8 and 12 checkpoints
  for (int64_t step = 1; step <= 12; ++step) {
    save(checkpoints, step);
    if (step % 4 != 0) continue;
    Count& count = counts.emplace_back();
    count.prune_none = requests_of([&] { prune(checkpoints, {.every = 1}, step); });
    count.prune = requests_of([&] { prune(checkpoints, {.latest_k = 2, .every = 1}, step); });
    count.prune_best = requests_of([&] { prune(checkpoints, {.latest_k = 2, .every = 1, .best = 1}, step); });
    count.step_folder = requests_of([&] { step_folder(checkpoints, 3); });
    count.list = requests_of([] { EXPECT_EQ(test::run_hearth("checkpoints list s3://bucket/many").exit_code, 0); });
  }
  EXPECT_THAT(list_steps(checkpoints), testing::SizeIs(12));
  for (const Count& count : counts) {
    EXPECT_EQ(count.prune_none, 0);
    EXPECT_GT(count.prune, 0);
    EXPECT_EQ(count.prune, counts[0].prune);
    EXPECT_EQ(count.step_folder, counts[0].step_folder);
  }
  EXPECT_EQ(counts[2].prune_best - counts[1].prune_best, counts[1].prune_best - counts[0].prune_best);
  EXPECT_EQ(counts[2].list - counts[1].list, counts[1].list - counts[0].list);
}

// Which checkpoints a prune asks about makes no difference to what it deletes: with a save under way among them.
TEST(StoredCheckpoint, PruneCountsTheNewestThatAreWhole) {
  HEARTH_NEEDS_STORE();
  const Path checkpoints = kStore / "partly";
  for (const int64_t step : {1, 2, 3, 4, 6, 7}) save(checkpoints, step);
  save(checkpoints, 2);
  for (const int64_t step : {5, 7})  // 7: beside a whole one of this step
    write_rank_file(temporary_folder(checkpoints, step, next_number()), 0, flat_pieces(state_at(8), 0, 2));
  EXPECT_THAT(prune(checkpoints, {.latest_k = 3, .every = 2}, 7), ElementsAre(1, 3));
  EXPECT_THAT(list_steps(checkpoints), ElementsAre(2, 4, 6, 7));
  EXPECT_THAT(prune(checkpoints, {.latest_k = 1, .steps = {6}}, 7), ElementsAre(2, 4));
  EXPECT_THAT(list_steps(checkpoints), ElementsAre(6, 7));
}

TEST(StoredCheckpoint, DamageIsFoundAndAnOlderOneTaken) {
  HEARTH_NEEDS_STORE();
  const Path checkpoints = kStore / "damaged";
  save(checkpoints, 1);
  save(checkpoints, 2);
  const Path file = step_folder(checkpoints, 2) / "__R_1.distcp";
  std::string content = read_file(file);
  content[content.size() / 2] ^= 1;
  remove_file(file);
  write_file_atomic(file, content);
  const NewestGood found = newest_good(checkpoints);
  EXPECT_EQ(found.step, 1);
  ASSERT_EQ(found.damaged.size(), 1);
  EXPECT_THAT(found.damaged[0].reason, HasSubstr("checksum"));
  const test::CommandResult verify = test::run_hearth("verify s3://bucket/damaged/step-00000002");
  EXPECT_EQ(verify.exit_code, 3) << verify.output;
  EXPECT_EQ(test::run_hearth("verify s3://bucket/damaged/step-00000001").exit_code, 0);
  const test::CommandResult list = test::run_hearth("checkpoints list s3://bucket/damaged --verify");
  EXPECT_THAT(list.output, testing::AllOf(HasSubstr("good"), HasSubstr("damaged")));
}

TEST(StoredCheckpoint, IsWholeOrAbsentAfterAnyFault) {
  HEARTH_NEEDS_STORE();
  with_faults_at_every_request({"500", "flip", "rflip"}, 7);
}

}  // namespace
}  // namespace hearth::checkpoint
