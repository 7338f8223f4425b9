// Trainings of GPT-NeoX for tests, see zero.py.
#pragma once

#include "foreign.h"

#include "checkpoint/load.h"

namespace hearth::convert {

struct ZeroCase {
  const char* dialect;
  int tp, dp;
};

// Runs a command of tests/convert/zero.py; returns the last line that it prints.
inline std::string zero(const std::string& words) {
  const test::CommandResult result = test::run_python("tests/convert/zero.py " + words);
  EXPECT_EQ(result.exit_code, 0) << words << "\n" << result.output;
  std::string text = result.output;
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

// A model of GPT-NeoX in SCRATCH/f. Slots need a part of a key for each of 6 heads.
inline void make_model(const test::ScratchFolder& scratch, const ZeroCase& c) {
  const std::string at = scratch.path().string();
  foreign(fmt::format("make {}/f meta=0 L=2 D=144 V=132", at));
  foreign(fmt::format("neox {}/f {} {} 0", at, c.dialect, c.tp));
}

inline std::string zero_run_file(const test::ScratchFolder& scratch, const ZeroCase& c) {
  write_text(scratch / "run.toml",
             "[model]\ndim = 144\nn_layers = 2\nn_heads = 6\nn_kv_heads = 2\nhidden_dim = 112\nvocab_size = 132\n"
             "rope_theta = 500000\nrope_pairs = \"halves\"\n[training]\nseq_len = 16\n");
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
