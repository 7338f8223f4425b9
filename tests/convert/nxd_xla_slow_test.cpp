// SPDX-License-Identifier: Apache-2.0
// Trainings of torch_xla's own ZeRO-1, in and out: see nxd_xla.py. HEARTH_XLA_PYTHON names a Python that has it: torch
// and torch_xla 2.9.0, numpy and safetensors are enough.
#include <cstdlib>

#include "nxd_state.h"

namespace hearth::convert {
namespace {

std::string nxd_xla(const std::string& words) {
  const std::string script = test::source_path("tests/convert/nxd_xla.py");
  const test::CommandResult result =
      test::run_command(fmt::format("'{}' '{}' {} 2>&1", std::getenv("HEARTH_XLA_PYTHON"), script, words));
  return last_line(result, words);
}

TEST(TorchXla, WritesWhatHearthReadsAndGoesOnFromWhatHearthWrites) {
  HEARTH_NEEDS_ORACLE();
  if (std::getenv("HEARTH_XLA_PYTHON") == nullptr) GTEST_SKIP() << "HEARTH_XLA_PYTHON names no Python with torch_xla";
  const test::ScratchFolder scratch;
  const NxdStateCase c{"dtype=bfloat16", "1 1 v2 plain separate", "1 matrices"};
  const std::string at = scratch.path().string(), config = state_run_file(scratch, c);
  foreign(fmt::format("make {}/f meta=0 {}", at, c.model));
  foreign(fmt::format("nxd {}/f {}", at, c.files));
  nxd_xla(fmt::format("train {}/f", at));
  converted(fmt::format("--to native {1} {0}/f/nxd {0}/native", at, config));
  for (const char* kind : {"weight", "exp_avg", "exp_avg_sq"})
    converted(fmt::format("--to native {1} {0}/f/nxd-{2} {0}/f/native-{2}", at, config, kind));
  EXPECT_EQ(nxd_state(fmt::format("same {0}/f {0}/native", at)), "equal");
  converted(fmt::format("--to nxd --resume --nxd-names v2 {0}/native {0}/plain", at));
  EXPECT_EQ(nxd_xla(fmt::format("resume {0}/f {0}/plain/step_7", at)), "equal");
  // The script reads the model's file without torch_xla, so that one is plain.
  converted(fmt::format("--to nxd --resume --nxd-names v2 --xser {0}/native {0}/xser", at));
  std::filesystem::remove_all(scratch / "xser/step_7/model");
  std::filesystem::rename(scratch / "plain/step_7/model", scratch / "xser/step_7/model");
  EXPECT_EQ(nxd_xla(fmt::format("resume {0}/f {0}/xser/step_7", at)), "equal");
}

}  // namespace
}  // namespace hearth::convert
