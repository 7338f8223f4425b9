// SPDX-License-Identifier: Apache-2.0
// The rules of [profiling].
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "config/check.h"
#include "problems.h"

namespace hearth::config {
namespace {

const std::string kTraces = "profiling.enable_profiling=true", kSnapshots = "profiling.enable_memory_snapshot=true";

TEST(CheckProfiling, AWindowIsWithinTheRun) {
  EXPECT_TRUE(problems({kTraces}).empty());
  EXPECT_TRUE(problems({kTraces, "profiling.profile_freq=1000", "profiling.profiler_active=1000"}).empty());
  for (const std::string& on : {kTraces, kSnapshots})
    EXPECT_EQ(problems({on, "profiling.profile_freq=1001"}),
              one("profiling.profile_freq = 1001 is more than the run's 1000 steps"));
  // 32768 tokens are 8 steps of 8 sequences of 512 tokens.
  const std::vector<std::string> short_run = {kTraces, "training.steps=0", "training.tokens=32768",
                                              "training.global_batch_size=8", "training.seq_len=512"};
  EXPECT_EQ(problems(short_run), one("profiling.profile_freq = 10 is more than the run's 8 steps"));
  EXPECT_EQ(problems({kTraces, "profiling.profile_freq=4", "profiling.profiler_active=5"}),
            one("profiling.profiler_active = 5 is more than profiling.profile_freq = 4"));
}

TEST(CheckProfiling, FoldersAreTheirOwn) {
  const std::vector<std::pair<std::string, std::string>> keys = {{kTraces, "save_traces_folder"},
                                                                 {kSnapshots, "save_memory_snapshot_folder"}};
  const test::ScratchFolder scratch;
  const Path file = scratch / "file";
  write_file_atomic(file, "");
  for (const auto& [on, name] : keys) {
    const std::string key = "profiling." + name;
    EXPECT_TRUE(problems({on, key + "=profiles/one"}).empty());
    for (const char* folder : {"", ".", "checkpoints/"})
      EXPECT_EQ(problems({on, fmt::format("{}={}", key, folder)}),
                one(fmt::format("{} = \"{}\" is a folder with other files of the run", key, folder)));
    EXPECT_EQ(problems({on, key + "=s3://bucket/profiles"}),
              one(fmt::format("{} = \"s3://bucket/profiles\" is in a store", key)));
    EXPECT_EQ(problems({on, fmt::format("{}={}", key, file.string())}),
              one(fmt::format("{0} = \"{1}\": {1} is not a folder", key, file.string())));
  }
}

}  // namespace
}  // namespace hearth::config
