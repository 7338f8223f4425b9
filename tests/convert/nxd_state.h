// SPDX-License-Identifier: Apache-2.0
// Trainings of NxD for tests, see nxd_state.py.
#pragma once

#include "foreign.h"

namespace hearth::convert {

// Runs a command of tests/convert/nxd_state.py; returns the last line that it prints.
inline std::string nxd_state(const std::string& words) {
  const test::CommandResult result = test::run_python("tests/convert/nxd_state.py " + words);
  return last_line(result, words);
}

struct NxdStateCase {
  const char *model, *files, *training;
};

// `form`: which weights decay.
inline std::string state_run_file(const test::ScratchFolder& scratch, const NxdStateCase& c) {
  const std::string model = c.model, training = c.training;
  const bool is_bfloat16 = training.find("bfloat16") != std::string::npos;
  write_text(scratch / "run.toml",
             fmt::format("[model]\ndim = 96\nn_layers = 3\nn_heads = 6\nn_kv_heads = 2\nhidden_dim = {}\n"
                         "rope_theta = 500000\n[training]\nseq_len = 16\nsteps = 20\n{}"
                         "[optimizer]\nlr = 1e-3\nform = \"transformers\"\nweight_decay = 0.01\n{}\n"
                         "[lr_scheduler]\nwarmup_steps = 1\ndecay_type = \"constant\"\nrule = \"transformers\"\n",
                         model.find("F=120") == std::string::npos ? 112 : 120,
                         is_bfloat16 ? "dtype = \"bfloat16\"\n" : "mixed_precision_param = \"bfloat16\"\n",
                         training.find("all") != std::string::npos ? "weight_decay_on = \"all\"" : ""));
  return "--config " + (scratch / "run.toml").string();
}

}  // namespace hearth::convert
