// SPDX-License-Identifier: Apache-2.0
// Every layout of ranks that torchtitan saves from, and torchtitan 0.3 itself.
#include "torch_folders.h"

namespace hearth::convert {
namespace {

struct Layouts : testing::TestWithParam<Layout> {};

TEST_P(Layouts, KeepTheStateThroughHearth) {
  HEARTH_NEEDS_ORACLE();
  expect_state_kept(GetParam());
}

std::vector<Layout> all_layouts() {
  std::vector<Layout> layouts;
  for (const char* dialect : {"2025", "2026"}) {
    for (const char* dtype : {"float32", "bfloat16"}) {
      for (const auto& [dp, tp] : {std::pair(1, 1), {2, 1}, {1, 2}, {2, 2}})
        layouts.push_back({dialect, dp, tp, dtype, false});
      layouts.push_back({dialect, 3, 1, dtype, true});
    }
  }
  return layouts;
}

INSTANTIATE_TEST_SUITE_P(Slow, Layouts, testing::ValuesIn(all_layouts()), [](const auto& info) {
  const Layout& l = info.param;
  return fmt::format("{}_{}x{}_{}{}", l.dialect, l.dp, l.tp, l.dtype, l.tied ? "_tied" : "");
});

// A Python with torchtitan 0.3.0: that of HEARTH_TORCHTITAN_PYTHON, or one that pip installs into `folder` (some
// gigabytes). Empty where it cannot be had.
std::string torchtitan_python(const Path& folder) {
  if (const char* given = std::getenv("HEARTH_TORCHTITAN_PYTHON")) return given;
  const std::string at = folder.string();
  const test::CommandResult result = test::run_command(
      fmt::format("python3 -m venv {0} && {0}/bin/pip install --quiet --no-input torchtitan==0.3.0", at));
  return result.exit_code == 0 ? at + "/bin/python" : "";
}

// torchtitan trains, Hearth takes the state over and gives it back, and torchtitan's own CheckpointManager resumes from
// it: the next steps have the bits of the training that nobody interrupted.
TEST(TorchtitanSlow, ItsCheckpointManagerResumesFromHearth) {
  const test::ScratchFolder scratch;
  const std::string at = scratch.path().string(), python = torchtitan_python(scratch / "venv");
  if (python.empty()) GTEST_SKIP() << "pip cannot install torchtitan 0.3.0 here";
  const auto torchtitan = [&](const std::string& words) {
    const test::CommandResult result = test::run_command(
        fmt::format("{} -W ignore {} {}", python, test::source_path("tests/convert/torchtitan_run.py"), words));
    EXPECT_EQ(result.exit_code, 0) << words << "\n" << result.output;
    return result.output;
  };
  for (const char* tied : {"false", "true"}) {
    SCOPED_TRACE(fmt::format("tied = {}", tied));
    const std::string base = fmt::format("{}/{}", at, tied);
    torchtitan(fmt::format("train {}/theirs {}", base, tied));
    write_text(scratch / "run.toml", fmt::format(R"([model]
dim = 64
n_layers = 2
n_heads = 4
n_kv_heads = 2
hidden_dim = 128
vocab_size = 96
enable_weight_tying = {}
[optimizer]
lr = 3e-4
weight_decay_on = "all"
[lr_scheduler]
warmup_steps = 3
decay_ratio = 0.5
decay_type = "cosine"
min_lr_factor = 0.1
[training]
steps = 10
seq_len = 16
)",
                                                 tied));
    converted(fmt::format("--to native --config {0}/run.toml {1}/theirs/checkpoint/step-4 {1}/native", at, base));
    converted(fmt::format("--to torchtitan --resume {0}/native {0}/ours/checkpoint/step-4", base));
    EXPECT_THAT(torchtitan(fmt::format("resume {0}/theirs {0}/ours {1}", base, tied)), testing::HasSubstr("equal"));
    converted(fmt::format("--to torchtitan --resume {0}/native {0}/start", base));
    EXPECT_THAT(torchtitan(fmt::format("start {0}/theirs {0}/start {1}", base, tied)), testing::HasSubstr("equal"));
  }
}

}  // namespace
}  // namespace hearth::convert
