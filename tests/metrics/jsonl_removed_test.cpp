// SPDX-License-Identifier: Apache-2.0
// Somebody removes or replaces metrics.jsonl while a training writes it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "metrics/jsonl.h"
#include "support/environment.h"
#include "support/text_file.h"

namespace hearth::metrics {
namespace {

using testing::HasSubstr;

StepRecord line_of(int64_t step, double loss) {
  StepRecord r;
  r.step = step;
  r.loss = loss;
  return r;
}

TEST(RemovedJsonl, LinesAfterTheFileWasRemovedOrReplacedAreInTheNewOne) {
  const test::ScratchFolder folder;
  const Path path = folder / "metrics.jsonl";
  JsonlWriter writer(path);
  writer.append(line_of(1, 5));
  std::filesystem::remove(path);
  testing::internal::CaptureStderr();
  writer.append(line_of(2, 4));
  writer.append(line_of(3, 3));
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr(path.string() + " was removed: the next lines"));
  ASSERT_EQ(read_metrics(path).size(), 2u);
  EXPECT_EQ(read_metrics(path)[0].step, 2);
  std::filesystem::copy_file(path, folder / "copy");
  std::filesystem::rename(folder / "copy", path);  // as an editor does
  testing::internal::CaptureStderr();
  writer.append(line_of(4, 2));
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("was replaced"));
  EXPECT_EQ(read_metrics(path).size(), 3u);
  // Its folder is gone: the next save says so.
  std::filesystem::remove_all(folder.path());
  writer.append(line_of(5, 1));
}

}  // namespace
}  // namespace hearth::metrics
