// `hearth plan`, on the numbers of a published model.
#include <gtest/gtest.h>

#include "base/text.h"
#include "support/environment.h"

namespace hearth::commands {
namespace {

using test::CommandResult;

struct PlanCommand : ::testing::Test {
  PlanCommand() {
    write_file_atomic(
        folder / "run.toml",
        "[model]\nname = \"llama3.1\"\nflavor = \"8B\"\nvocab_size = 128256\n"
        "[training]\nseq_len = 8192\nlocal_batch_size = 1\nglobal_batch_size = 512\ntokens = 1000000000000\n"
        "[parallelism]\ndata_parallel_shard_degree = 64\n");
  }
  CommandResult run(const std::string& words) {
    return test::run_command("cd " + folder.path().string() + " && " + test::hearth_binary() + " plan " + words);
  }
  test::ScratchFolder folder;
};

TEST_F(PlanCommand, SaysWhatLlama31Of8BTakes) {
  const CommandResult result = run("run.toml --device MI300X --gemm-tflops 100 --efficiency 0.5");
  const std::vector<std::string> lines = split_lines(result.output);
  ASSERT_GT(lines.size(), 5U) << result.output;
  EXPECT_EQ(lines[0], "  model        8.03 B parameters (8030261248)");
  // 51.5 and 57.9 GFLOP a token: reference figures of causal and full counting at 8,192 tokens.
  EXPECT_EQ(
      lines[1],
      "  compute      51.5 GFLOP a token, forward and backward, attention counted as causal; 57.9 GFLOP counted in "
      "full");
  EXPECT_EQ(lines[2], "  device       MI300X: 192.0 GiB, 100 TFLOP/s in matrix products (--gemm-tflops)");
  // 4,194,304 tokens x 51.4704 GFLOP / (64 x 100 TFLOP/s x 0.5) = 67.4633 s; 238,419 steps; 8 nodes.
  EXPECT_NE(result.output.find("  step time    4.19 M tokens in 1 min 07 s, 62.2 k a second, at 50 %"),
            std::string::npos)
      << result.output;
  EXPECT_NE(
      result.output.find("  run time     238419 steps, 1.00 T tokens: 186 d 03 h on 64 devices, 35743.4 node-hours"),
      std::string::npos)
      << result.output;
}

// 4,194,304 tokens x 51.4704 GFLOP / (64 x 794 TFLOP/s x 0.75) = 5.66 s. A GPU computes in bfloat16 unless the run file
// says otherwise, whatever the device that it names for itself.
TEST_F(PlanCommand, AGpuComputesInBfloat16) {
  const CommandResult result = run("run.toml --device H200 --set memory.recompute=block");
  EXPECT_NE(result.output.find("    weights, bfloat16 "), std::string::npos) << result.output;
  EXPECT_NE(result.output.find("  step time    4.19 M tokens in 7."), std::string::npos) << result.output;
  const CommandResult wide = run("run.toml --device MI300X --set training.mixed_precision_param=float32");
  EXPECT_NE(wide.output.find("    weights, float32 "), std::string::npos) << wide.output;
}

TEST_F(PlanCommand, WhatMatchesNothingSaysWhereItStands) {
  write_file_atomic(folder / "run.toml", read_file(folder / "run.toml") + "[checkpoint]\nfreeze = [\"layers.99\"]\n");
  const CommandResult result = run("run.toml --device H200");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_TRUE(result.output.starts_with("error: run.toml:13: checkpoint.freeze: \"layers.99\" matches no parameter\n"))
      << result.output;
}

TEST_F(PlanCommand, SaysThatItDoesNotFitAndWhatWouldHelp) {
  const CommandResult result = run("run.toml --device a100");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.output.find("error: the training needs "), std::string::npos) << result.output;
  EXPECT_NE(result.output.find("fix: set memory.recompute = \"auto\""), std::string::npos);
}

TEST_F(PlanCommand, AMachineThatNobodyKnowsIsRefused) {
  const CommandResult result = run("run.toml --device H20");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.output.find("--device H20 is not known"), std::string::npos);
  EXPECT_NE(result.output.find("A100, H100, H200, MI250X, MI300X"), std::string::npos);
}

TEST_F(PlanCommand, ARunOnAGpuIsPlannedForOneThatIsNamed) {
  const std::string words = "run.toml --set training.device=cuda --set parallelism.data_parallel_shard_degree=1";
  const CommandResult result = run(words);
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_NE(result.output.find("give --device, one of A100, H100, H200"), std::string::npos) << result.output;
  const CommandResult named = run(words + " --device H200 --set memory.recompute=auto");
  EXPECT_NE(named.output.find("    weights, bfloat16 "), std::string::npos) << named.output;
  EXPECT_NE(named.output.find("    GPU kernels' workspace "), std::string::npos) << named.output;
}

TEST_F(PlanCommand, WithoutARateThereIsNoTime) {
  const CommandResult result =
      run("run.toml --device A100 --set training.mixed_precision_param=float32 --set memory.recompute=auto "
          "--set parallelism.data_parallel_shard_degree=512");
  EXPECT_NE(result.output.find("  step time    not known: nobody measured A100's matrix products in this type\n"),
            std::string::npos)
      << result.output;
}

// A copy of `hearth` beside a hearth-train of the test's own, or of none.
struct PlanHere : PlanCommand {
  PlanHere() { std::filesystem::copy_file(test::hearth_binary(), folder / "hearth"); }
  void write_hearth_train(const std::string& script) {
    write_file_atomic(folder / "hearth-train", "#!/bin/sh\n" + script);
    std::filesystem::permissions(folder / "hearth-train", std::filesystem::perms::owner_all);
  }
  CommandResult run_here(const std::string& words) {
    return test::run_command("cd " + folder.path().string() + " && PATH=/usr/bin:/bin ./hearth plan run.toml " + words);
  }
};

// 4,194,304 tokens x 51.4704 GFLOP / (2.5 TFLOP/s x 0.75) = 115,137 s: the ranks are threads of one CPU.
TEST_F(PlanHere, ThisMachineIsMeasured) {
  write_hearth_train("echo $@ > words\necho noise >&2\necho '{\"gemm_flops\": 2.5e12}'\n");
  const CommandResult result = run_here("--set training.threads=3");
  EXPECT_EQ(read_file(folder / "words"), "bench gemm --json --dtype float32 --threads 3\n");
  EXPECT_NE(result.output.find(", 2.50 TFLOP/s in matrix products (measured now)\n"), std::string::npos)
      << result.output;
  EXPECT_NE(result.output.find("  step time    4.19 M tokens in 1 d 07 h, 36 a second, at 75 %"), std::string::npos)
      << result.output;
  EXPECT_EQ(result.output.find("noise"), std::string::npos);
}

TEST_F(PlanHere, WhereItCannotBeMeasuredThereIsNoTime) {
  const std::string expected = "  step time    not known: hearth-train, which measures matrix products, ";
  EXPECT_NE(run_here("").output.find(expected), std::string::npos);
  for (const char* script : {"echo '{\"gemm_flops\": 1e12}'\nexit 127\n", "echo something\n", "kill -9 $$\n"}) {
    write_hearth_train(script);
    EXPECT_NE(run_here("").output.find(expected), std::string::npos) << script;
  }
}

}  // namespace
}  // namespace hearth::commands
