// SPDX-License-Identifier: Apache-2.0
// `hearth bench comm` as a user starts it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "support/hearth_command.h"

namespace hearth::bench {
namespace {

// Through the memory of the host, and through what stands for NCCL.
TEST(BenchComm, MeasuresEveryCollective) {
  for (const std::string& backend : {std::string(), std::string(" --backend nccl --nccl-library " HEARTH_BUILD_DIR
                                                                "/tests/libhearth_fake_nccl.so")}) {
    const test::CommandResult result = test::run_hearth("bench comm --ranks 3 --mib 1 --repeats 3 --json" + backend);
    ASSERT_EQ(result.exit_code, 0) << result.output;
    const auto json = nlohmann::json::parse(result.output);
    EXPECT_EQ(json["ranks"], 3);
    EXPECT_EQ(json["bytes"], 1 << 20);
    for (const char* name :
         {"start_s", "message_s", "all_gather_s", "reduce_scatter_s", "all_reduce_s", "all_to_all_s", "memcpy_s"}) {
      EXPECT_GT(json[name].get<double>(), 0) << name;
      EXPECT_LT(json[name].get<double>(), 10) << name;
    }
  }
}

TEST(BenchComm, OfRanksThatAreAlreadyStartedRefusesToStartMore) {
  const test::CommandResult result = test::run_hearth("bench comm --ranks 2", "RANK=0 WORLD_SIZE=2");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.output, testing::HasSubstr("--ranks 2 was given to a process that torchrun started"));
}

}  // namespace
}  // namespace hearth::bench
