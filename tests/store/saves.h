// Saves in a store, for the tests of this folder.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/error.h"
#include "checkpoint/example.h"
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

inline void save(const Path& checkpoints, int64_t step, int64_t start = 0) {
  const Path folder = temporary_folder(checkpoints, step, start);
  begin_save(folder);
  std::vector<std::string> items;
  for (int64_t rank = 0; rank < 2; ++rank)
    items.push_back(write_rank_file(folder, rank, flat_pieces(state_at(step), rank, 2), {}, start));
  commit(folder, step_folder(checkpoints, step), items, example_manifest(step, 2));
}

inline void expect_state(const Path& folder, int64_t step) {
  Reader reader = Reader::open(folder);
  for (const ExampleTensor& tensor : state_at(step)) EXPECT_EQ(read_whole(reader, tensor), tensor.bytes) << step;
}

// Every request of a save gets each fault, once, or from then on. After that the step is whole or absent, the older
// one is whole, and the next save works.
inline void with_faults_at_every_request(const std::vector<std::string>& actions, int64_t stride) {
  const Path checkpoints = kStore / "faults", older = step_folder(checkpoints, 1), step = step_folder(checkpoints, 2);
  test::S3Server& server = test::S3Server::get();
  save(checkpoints, 1);
  server.take_log();
  save(checkpoints, 2);
  const int64_t requests = std::ssize(server.take_log());
  EXPECT_GT(requests, 10);
  int64_t failed = 0, healed = 0;
  for (const std::string& action : actions) {
    for (const bool lasting : {false, true}) {
      for (int64_t nth = 1; nth <= requests; nth += stride) {
        remove_tree(step);
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
        if (saved) {
          expect_state(step, 2);
        } else if (path_exists(step / kManifestFile)) {
          // The last answer was lost: then it is whole.
          EXPECT_THAT(verify_checkpoint(step).problems, testing::IsEmpty());
        }
        if (testing::Test::HasFailure()) return;
      }
    }
  }
  expect_state(older, 1);
  save(checkpoints, 2);
  expect_state(step, 2);
  EXPECT_GT(failed, 0);
  EXPECT_GT(healed, 0);
}

}  // namespace hearth::checkpoint
