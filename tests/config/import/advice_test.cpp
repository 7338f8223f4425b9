// SPDX-License-Identifier: Apache-2.0
// Errors about keys that other programs have.
#include <gtest/gtest.h>

#include "config/familiar_names.h"
#include "config/import/torchtitan.h"
#include "config/load.h"
#include "config/run_file.h"

namespace hearth::config {
namespace {

using Advice = RunFileTest;

// torchtitan's own files, line by line: llama3_8b.toml of 2025, and those of its forks of 2024.
TEST_F(Advice, AKeyOfTorchtitanThatHearthDoesNotHaveIsNamedWithWhatToDoInstead) {
  EXPECT_EQ(
      error_of("[job]\ndescription = \"Llama 3 8B\"\nprint_args = true\n"
               "[profiling]\nenable_profiling = true\nprofiler_warmup = 3\n"
               "[model]\nflavor = \"8B\"\ntokenizer_path = \"tokenizer.model\"\n"
               "[training]\nbatch_size = 1\ncompile = false\nsteps = 1000\n"
               "[parallelism]\nenable_async_tensor_parallel = true\n"
               "[checkpoint]\nenable_checkpoint = false\ninterval_type = \"steps\"\n"
               "[quantize.linear.float8]\nfilter_fqns = [\"output\"]\n"
               "[data]\npath = \"d\"\n"),
      "error: run.toml has 9 errors\n"
      "  run.toml:3: job.print_args is a key of torchtitan that Hearth does not have\n"
      "      fix: remove it: the resolved configuration is always printed\n"
      "  run.toml:6: profiling.profiler_warmup is a key of torchtitan that Hearth does not have\n"
      "      fix: remove it: a trace needs no steps before it\n"
      "  run.toml:9: model.tokenizer_path is a key of torchtitan that Hearth does not have\n"
      "      fix: remove it: the dataset at data.path has its tokenizer\n"
      "  run.toml:11: training.batch_size is a key of torchtitan that Hearth does not have\n"
      "      fix: write training.local_batch_size\n"
      "  run.toml:12: training.compile is a key of torchtitan that Hearth does not have\n"
      "      fix: remove it: nothing is compiled while a run starts\n"
      "  run.toml:15: parallelism.enable_async_tensor_parallel is a key of torchtitan that Hearth does not have\n"
      "      fix: remove it: a product waits for the rows of all ranks\n"
      "  run.toml:17: checkpoint.enable_checkpoint is a key of torchtitan that Hearth does not have\n"
      "      fix: remove it: checkpoints are always written; checkpoint.interval says when\n"
      "  run.toml:18: checkpoint.interval_type is a key of torchtitan that Hearth does not have\n"
      "      fix: remove it: checkpoint.interval counts steps, checkpoint.interval_seconds seconds\n"
      "  run.toml:19: [quantize] is a section of torchtitan that Hearth does not have\n"
      "      fix: write numerics.fp8 = true, which multiplies the linear layers in float8, each row with a factor of "
      "its own");
  EXPECT_EQ(error_of(kComplete, {"training.compile=true"}),
            "error: --set: training.compile is a key of torchtitan that Hearth does not have\n"
            "  fix: remove it: nothing is compiled while a run starts");
}

TEST_F(Advice, KeysOfTorchtitanThatMovedOrHaveAnotherFormNameOurs) {
  EXPECT_EQ(
      error_of(kComplete, {"experimental.context_parallel_degree=2", "experimental.enable_x=1",
                           "parallelism.fsdp_reshard_after_forward=never", "metrics.enable_wandb=true"}),
      "error: run.toml has 4 errors\n"
      "  --set: experimental.context_parallel_degree is a key of torchtitan that Hearth does not have\n"
      "      fix: write parallelism.context_parallel_degree\n"
      "  --set: experimental.enable_x is a key of torchtitan that Hearth does not have\n"
      "      fix: remove it; the degrees of pipeline and context parallel are keys of [parallelism]\n"
      "  --set: parallelism.fsdp_reshard_after_forward is a key of torchtitan that Hearth does not have\n"
      "      fix: write parallelism.zero_stage = 3, which gathers weights again for the backward (\"always\"), or 2 "
      "(\"never\")\n"
      "  --set: metrics.enable_wandb is a key of torchtitan that Hearth does not have\n"
      "      fix: remove it: `scripts/wandb_sync.py RUN --project NAME` sends a run's metrics to W&B");
}

TEST_F(Advice, NamesOfOtherProgramsNameOurs) {
  EXPECT_EQ(error_of(kComplete + std::string("learning_rate = 1\n"),
                     {"model.hidden_size=64", "parallelism.tp=2", "lr=1", "num_layers=3", "nothing_like_it=3"}),
            "error: run.toml has 6 errors\n"
            "  run.toml:7: training.learning_rate is not a key\n"
            "      fix: did you mean optimizer.lr?\n"
            "  --set: model.hidden_size is not a key\n"
            "      fix: did you mean model.dim?\n"
            "  --set: parallelism.tp is not a key\n"
            "      fix: did you mean parallelism.tensor_parallel_degree?\n"
            "  --set: \"lr=1\" is not section.key=value\n"
            "      fix: did you mean optimizer.lr?\n"
            "  --set: \"num_layers=3\" is not section.key=value\n"
            "      fix: did you mean model.n_layers?\n"
            "  --set: \"nothing_like_it=3\" is not section.key=value\n"
            "      fix: remove it; `hearth config docs` lists every key");
}

TEST_F(Advice, EachFamiliarNameNamesAKeyAndHidesNone) {
  for (const FamiliarName& name : familiar_names()) {
    EXPECT_NE(find_field(name.ours), nullptr) << name.ours;
    for (const Field& field : fields()) EXPECT_NE(field.key, name.key);
    EXPECT_EQ(our_name_of(name.key), name.ours) << "it stands twice";
  }
}

// A row about a key that Hearth has would never be read.
TEST_F(Advice, NoAdviceAboutTorchtitanIsAboutAKeyThatHearthHas) {
  for (const Field& field : fields()) {
    EXPECT_EQ(torchtitan_advice(field.section, field.key), "") << field.name();
  }
}

}  // namespace
}  // namespace hearth::config
