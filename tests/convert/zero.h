// SPDX-License-Identifier: Apache-2.0
// Trainings of GPT-NeoX for tests, see zero.py.
#pragma once

#include "foreign.h"

#include "checkpoint/load.h"

namespace hearth::convert {

struct ZeroCase {
  const char* dialect;
  int tp, dp;
  int pp = 0;  // stages; 0: a file for each rank, and none for layers
  bool tied = false;
  int layers = 2;
};

// Runs a command of tests/convert/zero.py; returns the last line that it prints.
inline std::string zero(const std::string& words) {
  const test::CommandResult result = test::run_python("tests/convert/zero.py " + words);
  return last_line(result, words);
}

// A model of GPT-NeoX in SCRATCH/f. Slots need a part of a key for each of 6 heads.
inline void make_model(const test::ScratchFolder& scratch, const ZeroCase& c) {
  const std::string at = scratch.path().string();
  foreign(fmt::format("make {}/f meta=0 L={} D=144 V=132 tied={:d}", at, c.layers, c.tied));
  foreign(fmt::format("neox {}/f {} {} 0", at, c.dialect, c.tp));
}

inline std::string zero_run_file(const test::ScratchFolder& scratch, const ZeroCase& c) {
  write_text(scratch / "run.toml",
             fmt::format("[model]\ndim = 144\nn_layers = {}\nn_heads = 6\nn_kv_heads = 2\nhidden_dim = 112\n"
                         "vocab_size = 132\nrope_theta = 500000\nrope_pairs = \"halves\"\nenable_weight_tying = {}\n"
                         "[training]\nseq_len = 16\n",
                         c.layers, c.tied));
  return fmt::format("--config {}/run.toml{}", scratch.path().string(),
                     std::string(c.dialect) == "split" ? " --qkv-layout split" : "");
}

// Converts SCRATCH/f/neox to SCRATCH/native, and compares it with the truth beside it.
inline void expect_the_training(const test::ScratchFolder& scratch, const ZeroCase& c) {
  const std::string at = scratch.path().string(), config = zero_run_file(scratch, c);
  converted(fmt::format("--to native {1} {0}/f/neox {0}/native", at, config));
  for (const char* kind : {"weight", "exp_avg", "exp_avg_sq"})
    converted(fmt::format("--to native {1} {0}/f/neox-{2}/global_step2 {0}/f/native-{2}", at, config, kind));
  EXPECT_EQ(zero(fmt::format("same {0}/f {0}/native", at)), "equal");
  const checkpoint::Reader reader = checkpoint::Reader::open(at + "/native");
  EXPECT_EQ(reader.manifest().step, 7);
  EXPECT_EQ(reader.manifest().optimizer_start, 4);
}

}  // namespace hearth::convert
