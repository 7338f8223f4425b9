// SPDX-License-Identifier: Apache-2.0
// A training of PyTorch, saved as torchtitan saves it, through Hearth and back.
#pragma once

#include "checkpoint/load.h"
#include "foreign.h"

namespace hearth::convert {

// Runs a command of tests/convert/torch_folders.py; returns the last line that it prints. Only a process of its own can
// start several ranks.
inline std::string torch_folders(const std::string& words, bool several_ranks = false) {
  const std::string script = test::source_path("tests/convert/torch_folders.py");
  const test::CommandResult result =
      several_ranks ? test::run_command(fmt::format("{} -W ignore {} {}", test::oracle_python(), script, words))
                    : test::run_python(script + " " + words);
  return last_line(result, words);
}

// A run file that describes these models and goes on with their training.
inline std::string run_file_of_torch(bool tied) {
  return fmt::format(R"([model]
dim = 48
n_layers = 2
n_heads = 6
n_kv_heads = 2
hidden_dim = 64
vocab_size = 67
enable_weight_tying = {}
[optimizer]
lr = 1e-3
weight_decay_on = "all"
[lr_scheduler]
warmup_steps = 0
decay_type = "constant"
[training]
steps = 10
seq_len = 16
)",
                     tied);
}

struct Layout {
  const char* dialect;
  int dp, tp;
  const char* dtype;
  bool tied;
};

// Saves with this layout of ranks, converts to a native checkpoint and back, and compares every bit and every setting.
inline void expect_state_kept(const Layout& layout) {
  const test::ScratchFolder scratch;
  const std::string at = scratch.path().string();
  SCOPED_TRACE(fmt::format("{} {}x{} {} tied={}", layout.dialect, layout.dp, layout.tp, layout.dtype, layout.tied));
  torch_folders(fmt::format("make {}/theirs {} {} {} {} {:d}", at, layout.dialect, layout.dp, layout.tp, layout.dtype,
                            layout.tied),
                layout.dp * layout.tp > 1);
  write_text(scratch / "run.toml", run_file_of_torch(layout.tied));
  EXPECT_THAT(converted(fmt::format("--from dcp --to native --config {0}/run.toml {0}/theirs {0}/native", at)),
              testing::HasSubstr("data begin with their first sample"));
  EXPECT_EQ(torch_folders(fmt::format("native {0}/native {0}/theirs", at)), "equal");
  const checkpoint::Manifest manifest = checkpoint::Reader::open(scratch / "native").manifest();
  EXPECT_EQ(manifest.step, 3);
  EXPECT_EQ(manifest.tokens_seen, 3 * 4096);
  EXPECT_EQ(manifest.optimizer_start, 0);
  if (layout.dialect != std::string("2026")) return;
  // Moments in bfloat16 are float32 in a native checkpoint, and PyTorch makes them bfloat16 again.
  converted(fmt::format("--to torchtitan --resume --config {0}/run.toml {0}/theirs {0}/back", at));
  EXPECT_EQ(torch_folders(fmt::format("same {0}/theirs {0}/back dataloader", at)), "equal");
  if (layout.dtype != std::string("float32")) return;
  converted(fmt::format("--to torchtitan --resume {0}/native {0}/step-3", at));
  EXPECT_EQ(torch_folders(fmt::format("same {0}/theirs {0}/step-3 dataloader", at)), "equal");
}

}  // namespace hearth::convert
