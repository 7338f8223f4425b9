// SPDX-License-Identifier: Apache-2.0
// `hearth plan --compare`, and --device with a cluster file.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "support/environment.h"

namespace hearth::commands {
namespace {

using test::CommandResult;
using testing::HasSubstr;
using testing::Not;

struct PlanCompare : ::testing::Test {
  PlanCompare() {
    write("a.toml", "");
    write("b.toml", "tensor_parallel_degree = 2\ndata_parallel_shard_degree = 32\nzero_stage = 3\n");
  }
  void write(const std::string& name, const std::string& parallelism) {
    write_file_atomic(folder / name,
                      "[model]\nname = \"llama3.1\"\nflavor = \"8B\"\nvocab_size = 128256\n"
                      "[training]\nseq_len = 8192\nlocal_batch_size = 1\nglobal_batch_size = 512\nsteps = 1000\n"
                      "[parallelism]\n" +
                          (parallelism.empty() ? "data_parallel_shard_degree = 64\n" : parallelism));
  }
  CommandResult run(const std::string& words) {
    return test::run_command("cd " + folder.path().string() + " && " + test::hearth_binary() + " plan " + words);
  }
  // The words of the table's line that begins with `name`, without blanks.
  static std::vector<std::string> row(const std::string& text, const std::string& name) {
    for (const std::string& line : split_lines(text)) {
      const size_t at = line.find("   " + name + "  ");
      if (at == std::string::npos || at > 1) continue;
      std::vector<std::string> words = {line.substr(0, 1)};
      std::string rest = line.substr(at + 3 + name.size());
      for (size_t gap = rest.find("  "); !rest.empty(); gap = rest.find("  ")) {
        const std::string word = rest.substr(0, gap);
        if (!word.empty()) words.push_back(word);
        rest = gap == std::string::npos ? "" : rest.substr(gap + 2);
        while (rest.starts_with(' ')) rest.erase(0, 1);
      }
      return words;
    }
    return {};
  }
  test::ScratchFolder folder;
};

// Each number of the table is that of the file's own plan.
TEST_F(PlanCompare, TheNumbersAreThoseOfBothPlansAndDifferencesAreMarked) {
  const std::string device = " --device H100";
  const CommandResult result = run("--compare a.toml b.toml" + device);
  EXPECT_EQ(result.exit_code, 0) << result.output;
  const auto a = nlohmann::json::parse(run("a.toml --json --device H200").output);
  const CommandResult own_a = run("a.toml" + device), own_b = run("b.toml" + device);
  const auto total = [](const CommandResult& own) {
    const size_t at = own.output.find("  memory ");
    return own.output.substr(at, own.output.find('\n', at) - at);
  };
  const std::vector<std::string> memory = row(result.output, "in all");
  ASSERT_EQ(memory.size(), 4u) << result.output;
  EXPECT_EQ(memory[0], "*");
  EXPECT_THAT(total(own_a), HasSubstr(memory[1])) << result.output;
  EXPECT_THAT(total(own_b), HasSubstr(memory[2])) << result.output;
  EXPECT_EQ(row(result.output, "mesh"), (std::vector<std::string>{"*", "dp_shard 64", "dp_shard 32, tp 2"}));
  EXPECT_EQ(row(result.output, "parameters"), (std::vector<std::string>{" ", "8030261248", "8030261248"}));
  EXPECT_EQ(row(result.output, "steps"), (std::vector<std::string>{" ", "1000", "1000"}));
  EXPECT_EQ(row(result.output, "forward and backward"), (std::vector<std::string>{" ", "51.5 GFLOP", "51.5 GFLOP"}));
  // Only the second has ranks that share layers: its traffic inside layers is new.
  const std::vector<std::string> inside = row(result.output, "inside layers");
  ASSERT_EQ(inside.size(), 4u) << result.output;
  EXPECT_EQ(inside[1], "-");
  EXPECT_EQ(inside[3], "new");

  // A difference that no rounded number shows has its mark.
  std::string other = read_file(folder / "a.toml");
  other.replace(other.find("steps = 1000"), 12, "steps = 1001\nseq_len = 8191");
  other.erase(other.find("seq_len = 8192\n"), 15);
  write_file_atomic(folder / "c.toml", other);
  const CommandResult small = run("--compare a.toml c.toml" + device);
  EXPECT_EQ(row(small.output, "positions of a sequence"), (std::vector<std::string>{"*", "8192", "8191", "-1"}));
  EXPECT_EQ(row(small.output, "steps"), (std::vector<std::string>{"*", "1000", "1001", "+0.1 %"}));

  // The same file twice has no mark.
  const CommandResult same = run("--compare a.toml a.toml --device H200");
  EXPECT_THAT(same.output, Not(HasSubstr("*"))) << same.output;
  const auto both = nlohmann::json::parse(run("--compare a.toml b.toml --json" + device).output);
  ASSERT_EQ(both.size(), 2u);
  EXPECT_EQ(
      both[0].at("memory").at("total_bytes"),
      nlohmann::json::parse(run("--compare a.toml a.toml --json" + device).output)[1].at("memory").at("total_bytes"));
  EXPECT_NE(both[0].at("memory").at("total_bytes"), both[1].at("memory").at("total_bytes"));
}

TEST_F(PlanCompare, TwoFilesAreNeededAndErrorsNameTheirFile) {
  EXPECT_THAT(run("--compare a.toml").output, HasSubstr("error: 1 run files for --compare\n  fix: give two"));
  EXPECT_THAT(run("a.toml b.toml").output, HasSubstr("error: 2 run files\n  fix: give one, or --compare and two"));
  EXPECT_THAT(run("--compare a.toml b.toml --search --device H100").output,
              HasSubstr("error: --compare does not go with --search"));
  write("b.toml", "zero_stag = 3\n");
  const CommandResult wrong = run("--compare a.toml b.toml --device H100");
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_THAT(wrong.output, HasSubstr("b.toml:11: ")) << wrong.output;
}

TEST_F(PlanCompare, AClusterFileSaysTheDeviceItsMemoryAndItsRate) {
  // The shipped file of Frontier names the GCD: the plan is that of the name.
  const CommandResult named = run("a.toml --device MI250X"), shipped = run("a.toml --device frontier");
  EXPECT_EQ(shipped.output, named.output);

  write_file_atomic(folder / "mine.toml",
                    "[job]\ngpus_per_node = 4\nranks_per_node = 4\n[device]\nname = \"X1\"\nmemory = \"192 GiB\"\n"
                    "[preflight]\ngemm_tflops = 200\n");
  const auto mine = nlohmann::json::parse(run("a.toml --device mine.toml --json").output);
  EXPECT_EQ(mine.at("device").at("name"), "X1");
  EXPECT_EQ(mine.at("device").at("memory_bytes"), int64_t{192} << 30);
  EXPECT_EQ(mine.at("device").at("gemm_flops"), 200e12);
  EXPECT_EQ(mine.at("run").at("nodes"), 16);  // 64 ranks, four GPUs a node
  EXPECT_THAT(
      run("a.toml --device mine.toml").output,
      HasSubstr("  device       X1: 192.0 GiB, 200 TFLOP/s in matrix products (preflight.gemm_tflops of mine.toml)\n"));
  // The option wins over the file.
  EXPECT_EQ(nlohmann::json::parse(run("a.toml --device mine.toml --gemm-tflops 50 --json").output)
                .at("device")
                .at("gemm_flops"),
            50e12);

  // Nodes without GPUs: their memory as Slurm writes it, and the rate of all ranks of a node.
  for (const std::string memory : {"200T", "200t", "200TB", "209715200"}) {
    write_file_atomic(folder / "cpu.toml", "[job]\nranks_per_node = 4\nmemory_per_node = \"" + memory +
                                               "\"\n[preflight]\ngemm_tflops = 0.5\n");
    const CommandResult result = run("a.toml --device ./cpu.toml --json");
    ASSERT_TRUE(result.output.starts_with('{')) << result.output;
    const auto cpu = nlohmann::json::parse(result.output);
    EXPECT_EQ(cpu.at("device").at("memory_bytes"), int64_t{200} << 40) << memory;
    EXPECT_EQ(cpu.at("device").at("gemm_flops"), 2e12);
  }
}

TEST_F(PlanCompare, AClusterFileThatDoesNotSayItsDeviceIsRefused) {
  const CommandResult nvidia = run("a.toml --device slurm_nvidia");
  EXPECT_EQ(nvidia.exit_code, 2);
  EXPECT_THAT(nvidia.output, HasSubstr("error: slurm_nvidia does not say which GPUs the cluster has\n  fix: give "
                                       "device.name in it, one of A100"));
  EXPECT_THAT(run("a.toml --device slurm_cpu").output,
              HasSubstr("error: slurm_cpu does not say how much memory a node has\n  fix: give device.memory in it"));
  write_file_atomic(folder / "odd.toml", "[job]\ngpus_per_node = 4\n[device]\nname = \"X1\"\n");
  EXPECT_THAT(run("a.toml --device odd.toml").output, HasSubstr("  why: \"X1\" is no device that Hearth knows\n"));
  write_file_atomic(folder / "odd.toml", "[device]\nmemory = \"much\"\n");
  EXPECT_THAT(run("a.toml --device odd.toml").output,
              HasSubstr("odd.toml:2: device.memory = \"much\" is not a size\n  fix: write a number and a unit"));
  EXPECT_THAT(run("a.toml --device H1000").output,
              HasSubstr("or a cluster file (frontier, local, slurm_cpu, slurm_nvidia)"));
  EXPECT_THAT(run("a.toml --device missing.toml").output, HasSubstr("error: cannot open missing.toml\n"));
}

}  // namespace
}  // namespace hearth::commands
