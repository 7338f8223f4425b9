// SPDX-License-Identifier: Apache-2.0
// `hearth bench ranks` with a few ranks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "support/hearth_command.h"

namespace hearth::bench {
namespace {

TEST(BenchRanks, MeasuresAllThatRanksDoWithoutTensors) {
  const test::CommandResult result = test::run_hearth("bench ranks --ranks 80 --repeats 5 --json");
  ASSERT_EQ(result.exit_code, 0) << result.output;
  const auto json = nlohmann::json::parse(result.output);
  EXPECT_EQ(json["ranks"], 80);
  for (const char* key : {"start_s", "note_s", "note_apart_s", "gather_s", "commit_s", "metadata_bytes",
                          "manifest_bytes", "frame_s", "open_s", "bits_s", "rank_0_memory_bytes", "death_s"})
    EXPECT_GT(json[key].get<double>(), 0) << key;
  EXPECT_GT(json["items"].get<double>(), 80 * 3) << "each rank has a part of several tensors";
  // Parts of eight: rank 0 hears of seven ranks and nine parts. All 80 notes to all 80 ranks would be 800 kB.
  EXPECT_LT(json["note_sent"].get<double>(), 16 * 300);
  EXPECT_LT(json["note_received"].get<double>(), 16 * 300);
}

}  // namespace
}  // namespace hearth::bench
