// SPDX-License-Identifier: Apache-2.0
// Saves in a store, for the tests of this folder.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "checkpoint/example.h"
#include "checkpoint/retain.h"
#include "checkpoint/verify.h"
#include "s3_server.h"

namespace hearth::checkpoint {

inline const Path kStore = "s3://bucket";

// The state at a step: other values at other steps.
inline std::vector<ExampleTensor> state_at(int64_t step) {
  std::vector<ExampleTensor> tensors = example_tensors();
  for (ExampleTensor& tensor : tensors)
    if (tensor.info.dtype == DType::kInt64) std::memcpy(tensor.bytes.data(), &step, sizeof step);
  return tensors;
}

// Each save of a test has a number of its own, as each save of a training has.
inline SaveNumber next_number() {
  static SaveNumber number{.start = 1};
  ++number.save;
  return number;
}

// Returns the folder of the new checkpoint.
inline Path save(const Path& checkpoints, int64_t step, SaveNumber number = next_number()) {
  const Path folder = temporary_folder(checkpoints, step, number);
  begin_save(folder);
  std::vector<std::string> items;
  for (int64_t rank = 0; rank < 2; ++rank)
    items.push_back(write_rank_file(folder, rank, flat_pieces(state_at(step), rank, 2)));
  commit(folder, final_folder_of(folder), items, example_manifest(step, 2));
  remove_older_saves(folder);
  return folder;
}

inline void expect_state(const Path& folder, int64_t step) {
  Reader reader = Reader::open(folder);
  for (const ExampleTensor& tensor : state_at(step)) EXPECT_EQ(read_whole(reader, tensor), tensor.bytes) << step;
}

// Every request of a save gets each fault, once, or from then on. After that the step is whole or absent, the older
// one is whole, and the next save works.
inline void with_faults_at_every_request(const std::vector<std::string>& actions, int64_t stride) {
  const Path checkpoints = kStore / "faults";
  test::S3Server& server = test::S3Server::get();
  const Path older = save(checkpoints, 1);
  server.take_log();
  remove_tree(save(checkpoints, 2));
  const int64_t requests = std::ssize(server.take_log());
  EXPECT_GT(requests, 10);
  int64_t failed = 0, healed = 0;
  for (const std::string& action : actions) {
    for (const bool lasting : {false, true}) {
      for (int64_t nth = 1; nth <= requests; nth += stride) {
        server.set_faults(fmt::format("* . {} {} {}", nth, lasting ? 99999 : nth, action));
        bool saved = false;
        try {
          save(checkpoints, 2);
          saved = true;
          ++healed;
        } catch (const Error& error) {
          EXPECT_THAT(error.code(), testing::AnyOf(ExitCode::kHardware, ExitCode::kDamaged, ExitCode::kUser));
          ++failed;
        }
        server.set_faults("");
        SCOPED_TRACE(fmt::format("{} at request {}, {}", action, nth, lasting ? "lasting" : "once"));
        const Path step = step_folder(checkpoints, 2);
        if (saved) {
          expect_state(step, 2);
        } else if (path_exists(step / kManifestFile)) {
          // The last answer was lost: then it is whole.
          EXPECT_THAT(verify_checkpoint(step).problems, testing::IsEmpty());
        }
        if (testing::Test::HasFailure()) return;
        remove_tree(step);
      }
    }
  }
  expect_state(older, 1);
  expect_state(save(checkpoints, 2), 2);
  EXPECT_GT(failed, 0);
  EXPECT_GT(healed, 0);
}

}  // namespace hearth::checkpoint
