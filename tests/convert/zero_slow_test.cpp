// SPDX-License-Identifier: Apache-2.0
// Checkpoints that DeepSpeed itself wrote. HEARTH_DEEPSPEED_PYTHON names a Python that has it: 0.19.8 is installed with
// DS_BUILD_OPS=0 and runs on CPUs.
#include <cstdlib>

#include "zero.h"

namespace hearth::convert {
namespace {

struct DeepSpeed : testing::TestWithParam<ZeroCase> {};

TEST_P(DeepSpeed, MomentsWeightsAndStepAreThoseOfTheTraining) {
  HEARTH_NEEDS_ORACLE();
  const char* python = std::getenv("HEARTH_DEEPSPEED_PYTHON");
  if (python == nullptr) GTEST_SKIP() << "HEARTH_DEEPSPEED_PYTHON names no Python with DeepSpeed";
  const test::ScratchFolder scratch;
  const ZeroCase& c = GetParam();
  make_model(scratch, c);
  const std::string script = test::source_path("tests/convert/zero.py");
  const test::CommandResult result = test::run_command(
      fmt::format("'{}' '{}' deepspeed {}/f {} {} 2>&1", python, script, scratch.path().string(), c.tp, c.dp));
  ASSERT_EQ(result.exit_code, 0) << result.output;
  expect_the_training(scratch, c);
}

INSTANTIATE_TEST_SUITE_P(Ranks, DeepSpeed,
                         testing::Values(ZeroCase{"slots", 1, 1}, ZeroCase{"split", 1, 2}, ZeroCase{"slots", 1, 4},
                                         ZeroCase{"slots", 2, 2}),
                         [](const auto& info) { return fmt::format("Case{}", info.index); });

}  // namespace
}  // namespace hearth::convert
