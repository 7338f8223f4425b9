// SPDX-License-Identifier: Apache-2.0
// What a training does in its store, with requests that the store does twice, or long after their client gave up, or
// whose answer is lost.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "base/copy_tree.h"
#include "saves.h"

namespace hearth::checkpoint {

using test::S3Server;

// What a training does in its store: saves, a deletion by its rules, a step that it saves again after a rewind, and a
// copy of the result. Stops at the first error, as a training does.
inline void save_prune_and_copy(const Path& checkpoints) {
  save(checkpoints, 1);
  save(checkpoints, 2);
  save(checkpoints, 3);
  prune(checkpoints, {.latest_k = 2}, 3);
  save(checkpoints, 2);
  save(checkpoints, 1);
  CopyProgress progress;
  const Path source = step_folder(checkpoints, 3);
  copy_tree(source, Path(checkpoints.string() + "-copy"), progress);
}

// All that has a hearth.json, and so is finished, is whole. Looks at the server's own files. Returns how many.
inline int64_t expect_whole(const std::string& key) {
  int64_t finished = 0;
  std::vector<std::pair<int64_t, Path>> folders = {{3, S3Server::get().folder(key + "-copy")}};
  for (const StepFolder& found : list_step_folders(S3Server::get().folder(key)))
    folders.emplace_back(found.step, found.folder);
  for (const auto& [step, folder] : folders) {
    if (!path_exists(folder / kManifestFile)) continue;
    ++finished;
    EXPECT_THAT(verify_checkpoint(folder).problems, testing::IsEmpty()) << folder;
    expect_state(folder, step);
  }
  return finished;
}

// Every request, or every stride-th, is done twice, or after the end, or its answer is lost.
inline void with_every_request_twice_late_or_lost(int64_t stride) {
  S3Server& server = S3Server::get();
  server.take_log();
  save_prune_and_copy(kStore / "undisturbed");
  const int64_t requests = std::ssize(server.take_log());
  ASSERT_EQ(expect_whole("undisturbed"), 4);  // steps 1, 2 and 3, and the copy
  for (const std::string action : {"twice", "late", "lost"}) {
    for (int64_t nth = 1; nth <= requests; nth += stride) {
      SCOPED_TRACE(fmt::format("request {} of {}: {}", nth, requests, action));
      const std::string key = fmt::format("{}-{}", action, nth);
      server.set_faults(fmt::format("* . {} {} {}", nth, nth, action));
      save_prune_and_copy(kStore / key);
      server.set_faults("");
      EXPECT_EQ(expect_whole(key), 4);
      server.do_late_requests();
      remove_leftovers(kStore / key);  // as the next start does: a late hearth.json of a step that was deleted
      EXPECT_EQ(expect_whole(key), 4);
      if (testing::Test::HasFailure()) return;
    }
  }
}

}  // namespace hearth::checkpoint
