// SPDX-License-Identifier: Apache-2.0
// `hearth plan`, with the numbers of a published model.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "base/text.h"
#include "support/environment.h"

namespace hearth::commands {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

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
  // 63/64 of 8,030,261,248 weights of 2 bytes and gradients of 4.
  EXPECT_THAT(result.output,
              HasSubstr("  traffic      each rank sends 44.2 GiB a step: 44.2 GiB of weights and gradients\n"))
      << result.output;
  // 4,194,304 tokens x 51.4704 GFLOP / (64 x 100 TFLOP/s x 0.5) = 67.4633 s. The update of 1/64 of the weights moves 28
  // bytes for each: 0.0007 s at 5.3 TB/s. 238,419 steps; 8 nodes.
  EXPECT_THAT(result.output, HasSubstr("  step time    4.19 M tokens in 1 min 07 s, 62.2 k per second, at 50 %"))
      << result.output;
  EXPECT_THAT(result.output,
              HasSubstr("  run time     238419 steps, 1.00 T tokens: 186 d 03 h on 64 GPUs: 285950.0 GPU-hours, "
                        "35743.7 node-hours (8 nodes of 8 GPUs)\n"))
      << result.output;
}

// 4,194,304 tokens x (51.4704 + 12.3) GFLOP / (64 x 794 TFLOP/s x 0.49) = 10.7 s. A GPU computes in
// bfloat16 unless the run file names another type, for any training.device.
TEST_F(PlanCommand, AGpuComputesInBfloat16) {
  const CommandResult result = run("run.toml --device H200 --set memory.recompute=block");
  EXPECT_THAT(result.output, HasSubstr("    weights, bfloat16 ")) << result.output;
  EXPECT_THAT(result.output, HasSubstr("  step time    4.19 M tokens in 11 s")) << result.output;
  const CommandResult wide = run("run.toml --device MI300X --set training.mixed_precision_param=float32");
  EXPECT_THAT(wide.output, HasSubstr("    weights, float32 ")) << wide.output;
}

TEST_F(PlanCommand, SearchListsLayoutsAndTheKeysOfTheFirst) {
  const CommandResult result = run("run.toml --device MI250X --gpus 512 --search --limit 3");
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("\nLayouts that fit 512 MI250X GCDs, the fastest first")) << result.output;
  EXPECT_THAT(result.output, HasSubstr("\n[parallelism]\ndata_parallel_replicate_degree = ")) << result.output;
  const CommandResult json = run("run.toml --device MI250X --gpus 512 --search --limit 3 --json");
  const auto layouts = nlohmann::json::parse(json.output).at("layouts");
  ASSERT_EQ(layouts.size(), 3U);
  // The plan of the first one's keys has its memory and time.
  std::string sets;
  for (const char* key : {"data_parallel_replicate_degree", "data_parallel_shard_degree", "zero_stage",
                          "context_parallel_degree", "tensor_parallel_degree", "pipeline_parallel_degree"})
    sets += fmt::format(" --set parallelism.{}={}", key, layouts[0].at(key).get<int64_t>());
  sets += fmt::format(" --set memory.recompute=auto --set training.local_batch_size={}",
                      layouts[0].at("local_batch_size").get<int64_t>());
  const auto plan = nlohmann::json::parse(run("run.toml --device MI250X --json" + sets).output);
  EXPECT_TRUE(plan.at("memory").at("fits"));
  EXPECT_NEAR(plan.at("step").at("seconds").get<double>() / layouts[0].at("seconds").get<double>(), 1, 0.02);
  EXPECT_THAT(run("run.toml --search").output, HasSubstr("--search needs a GPU with a known rate"));
  EXPECT_THAT(run("run.toml --device H200 --limit 3").output, HasSubstr("--limit is for --search"));
  EXPECT_THAT(run("run.toml --gpus 8").output, HasSubstr("--gpus needs a GPU"));
}

// Without a batch in the run file each GPU has its sequences, so the steps of a run of so many tokens depend on the
// GPUs.
TEST_F(PlanCommand, ASearchPlansTheRunOnItsGpus) {
  write_file_atomic(folder / "plain.toml",
                    "[model]\nname = \"llama3.1\"\nflavor = \"8B\"\nvocab_size = 128256\n"
                    "[training]\nseq_len = 8192\nlocal_batch_size = 2\ntokens = 1000000000000\n");
  const auto search = nlohmann::json::parse(run("plain.toml --device H100 --gpus 64 --search --json").output);
  EXPECT_EQ(search.at("layouts").at(0).at("global_batch_size"), 64 * 2);
  EXPECT_EQ(search.at("step").at("tokens"), 64 * 2 * 8192);
  EXPECT_EQ(search.at("run").at("devices"), 64);
  EXPECT_EQ(search.at("run").at("steps"), (1000000000000 + 64 * 2 * 8192 - 1) / (64 * 2 * 8192));
  EXPECT_TRUE(search.at("memory").at("fits"));
}

// The keys that a search prints, planned: the same time, memory and use of the GPUs.
TEST_F(PlanCommand, ALayoutOfTheSearchIsPlannedAsTheSearchSays) {
  write_file_atomic(folder / "plain.toml",
                    "[model]\nname = \"llama3.1\"\nflavor = \"8B\"\nvocab_size = 128256\n"
                    "[training]\nseq_len = 8192\nglobal_batch_size = 512\ntokens = 1000000000000\n");
  for (const std::string device : {"--device H100 --gpus 64", "--device MI250X --gpus 512"}) {
    const CommandResult found = run("plain.toml --search --limit 4 --json " + device);
    ASSERT_EQ(found.exit_code, 0) << found.output;
    const auto search = nlohmann::json::parse(found.output);
    ASSERT_EQ(search.at("layouts").size(), 4U);
    bool is_first = true;
    for (const auto& layout : search.at("layouts")) {
      std::string sets =
          " --set memory.recompute=auto --set training.local_batch_size=" + layout.at("local_batch_size").dump();
      for (const char* key : {"data_parallel_replicate_degree", "data_parallel_shard_degree", "zero_stage",
                              "reduce_once_per_step", "context_parallel_degree", "tensor_parallel_degree",
                              "pipeline_parallel_degree", "pipeline_parallel_schedule"}) {
        const bool reduces = std::string(key) != "reduce_once_per_step" || layout.at(key).get<bool>();
        const bool staged = layout.at("pipeline_parallel_degree") != 1;
        if (reduces && (staged || std::string(key) != "pipeline_parallel_schedule"))
          sets += fmt::format(" --set parallelism.{}={}", key,
                              layout.at(key).is_string() ? layout.at(key).get<std::string>() : layout.at(key).dump());
      }
      const CommandResult planned = run("plain.toml --json " + device + sets);
      ASSERT_EQ(planned.exit_code, 0) << sets << planned.output;
      const auto plan = nlohmann::json::parse(planned.output);
      EXPECT_EQ(plan.at("step").at("seconds"), layout.at("seconds")) << sets;
      EXPECT_EQ(plan.at("step").at("parts"), layout.at("parts")) << sets;
      EXPECT_EQ(plan.at("step").at("efficiency"), 0.49) << sets;
      EXPECT_EQ(plan.at("memory").at("total_bytes"), layout.at("memory_bytes")) << sets;
      EXPECT_EQ(plan.at("memory").at("recompute"), layout.at("recompute")) << sets;
      if (!std::exchange(is_first, false)) continue;
      // All that the search says of the run is of its first layout.
      for (const char* member : {"compute", "memory", "traffic", "pipeline_bubble", "step", "run"})
        EXPECT_EQ(search.at(member), plan.at(member)) << member;
    }
  }
}

TEST_F(PlanCommand, ASearchThatFindsNothingSaysWhy) {
  const CommandResult small = run("run.toml --device H100 --gpus 2 --search --set model.flavor=405B");
  EXPECT_EQ(small.exit_code, 2) << small.output;
  EXPECT_THAT(small.output, HasSubstr("error: no layout fits 2 H100s\n  why: the one that needs least, "));
  EXPECT_THAT(small.output, HasSubstr(", needs "));
  const CommandResult odd = run("run.toml --device H100 --gpus 17 --search");
  EXPECT_EQ(odd.exit_code, 2) << odd.output;
  EXPECT_THAT(odd.output,
              HasSubstr("training.global_batch_size = 512 is no multiple of the data-parallel ranks that any "
                        "mesh leaves: 17\n"));
  const CommandResult json = run("run.toml --device H100 --gpus 17 --search --json 2>error || exit $?");
  EXPECT_EQ(json.exit_code, 2);
  const auto none = nlohmann::json::parse(json.output);
  EXPECT_TRUE(none.at("layouts").empty()) << json.output;
  for (const char* member : {"memory", "traffic", "pipeline_bubble", "step", "run"})
    EXPECT_TRUE(none.at(member).is_null()) << member;
  EXPECT_TRUE(read_file(folder / "error").starts_with("error: no layout fits 17 H100s"));
}

// docs/distributed.md has a table of what ranks hold, with the command that prints it.
TEST_F(PlanCommand, TheTableOfWhatARankHoldsIsWhatTheCommandPrints) {
  const std::string page = read_file(test::source_path("docs/distributed.md"));
  const struct {
    const char *row, *sets;
  } rows[] = {{"| 1 | whole | whole |", "zero_stage=1"},
              {"| 2 | whole | shards |", "zero_stage=2"},
              {"| 3 | shards | shards |", "zero_stage=3"},
              {"| 3, once | shards | whole |", "zero_stage=3 --set parallelism.reduce_once_per_step=true"}};
  for (const auto& [row, sets] : rows) {
    const CommandResult result =
        run(fmt::format("{} --device 'MI250X GCD' --set parallelism.data_parallel_shard_degree=64 --set "
                        "parallelism.{} --json",
                        test::source_path("configs/llama3_8b_text.toml"), sets));
    const auto memory = nlohmann::json::parse(result.output).at("memory");
    double all = 0, slots = 0;
    for (const auto& item : memory.at("items")) {
      const auto bytes = item.at("bytes").get<double>();
      if (item.at("name") != "activations") all += bytes;
      if (item.at("name").get<std::string>().find("in use") != std::string::npos) slots += bytes;
    }
    const std::string numbers =
        fmt::format("| {:.1f} GiB | {} |\n", all / (int64_t{1} << 30),
                    slots > 0 ? fmt::format("{:.1f} GiB", slots / (int64_t{1} << 30)) : std::string());
    const size_t begin = page.find(row);
    ASSERT_NE(begin, std::string::npos) << row;
    std::string line = page.substr(begin, page.find('\n', begin) - begin + 1);
    EXPECT_TRUE(line.ends_with(slots > 0 ? numbers : numbers.substr(0, numbers.size() - 3) + "|\n")) << line << numbers;
  }
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
  EXPECT_THAT(result.output, HasSubstr("error: the training needs ")) << result.output;
  EXPECT_THAT(result.output, HasSubstr("fix: set memory.recompute = \"auto\""));
}

TEST_F(PlanCommand, AMachineThatNobodyKnowsIsRefused) {
  const CommandResult result = run("run.toml --device MI25");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.output, AllOf(HasSubstr("--device MI25 "), HasSubstr("did you mean MI250X GCD?"),
                                   HasSubstr("H200"), HasSubstr("slurm_nvidia")));
  const CommandResult other = run("run.toml --device abacus");
  EXPECT_THAT(other.output, Not(HasSubstr("did you mean"))) << other.output;
}

TEST_F(PlanCommand, AMachineMayBeNamedAsPeopleNameIt) {
  const std::string sets = " --set parallelism.data_parallel_shard_degree=512 --set memory.recompute=block";
  const CommandResult gcd = run("run.toml --device 'MI250X GCD'" + sets);
  EXPECT_THAT(gcd.output, HasSubstr("  device       MI250X GCD: 64.0 GiB, 147 TFLOP/s")) << gcd.output;
  EXPECT_EQ(run("run.toml --device mi250x-gcd" + sets).output, gcd.output);
}

TEST_F(PlanCommand, OneGpuIsAnEighthOfANode) {
  const std::string one =
      "run.toml --set parallelism.data_parallel_shard_degree=1 --set model.flavor=1B "
      "--set model.name=llama3.2 --set training.tokens=1000000000 --set memory.recompute=auto ";
  const auto plan = nlohmann::json::parse(run(one + "--device H100 --json").output);
  const auto& time = plan.at("run");
  const double hours = time.at("seconds").get<double>() / 3600;
  EXPECT_EQ(time.at("devices"), 1);
  EXPECT_DOUBLE_EQ(time.at("device_hours").get<double>(), hours);
  EXPECT_DOUBLE_EQ(time.at("nodes").get<double>(), 0.125);
  EXPECT_DOUBLE_EQ(time.at("node_hours").get<double>(), hours / 8);
  const std::string text = run(one + "--device H100").output;
  EXPECT_THAT(text, HasSubstr(fmt::format(" on 1 GPU: {:.3g} GPU-hours, {:.3g} node-hours (0.125 nodes of 8 GPUs)\n",
                                          hours, hours / 8)))
      << text;
}

// The numbers in the text, by the same closed forms.
TEST_F(PlanCommand, SaysTheSameAsJson) {
  const CommandResult result =
      run("run.toml --device MI300X --gemm-tflops 100 --efficiency 0.5 --set memory.recompute=block --json");
  EXPECT_EQ(result.exit_code, 0);
  const auto plan = nlohmann::json::parse(result.output);
  // Llama-3.1-8B: embedding and output, and per layer wq and wo, wk and wv, w1 to w3, two norms; the last norm.
  const int64_t D = 4096, L = 32, F = 14336, V = 128256, KV = 1024, S = 8192;
  const int64_t matrices = L * (2 * D * D + 2 * D * KV + 3 * D * F) + V * D;
  const int64_t parameters = matrices + V * D + (2 * L + 1) * D;
  EXPECT_EQ(plan.at("model").at("parameters"), parameters);
  const auto& compute = plan.at("compute");
  const double causal = static_cast<double>(6 * matrices + 6 * L * D * S);
  EXPECT_DOUBLE_EQ(compute.at("flops_per_token").get<double>(), causal);
  EXPECT_DOUBLE_EQ(compute.at("flops_per_token_full_attention").get<double>(),
                   static_cast<double>(6 * matrices + 12 * L * D * S));
  EXPECT_DOUBLE_EQ(compute.at("computed_flops_per_token").get<double>(), causal);
  // A block's forward up to its second norm and w1 and w3: all of its products but w2.
  const double again = static_cast<double>(L * (2 * (2 * D * D + 2 * D * KV + 2 * D * F) + 2 * D * S));
  EXPECT_DOUBLE_EQ(compute.at("recomputed_flops_per_token").get<double>(), again);

  EXPECT_EQ(plan.at("device"),
            nlohmann::json({{"name", "MI300X"}, {"memory_bytes", int64_t{192} << 30}, {"gemm_flops", 1e14}}));
  const auto& memory = plan.at("memory");
  EXPECT_EQ(memory.at("fits"), true);
  // Beside tensors: context, libraries, one communicator of all ranks, and the margin of 64 GPUs.
  EXPECT_EQ(memory.at("limit_bytes"), (int64_t{192 - 1 - 4} << 30) - (int64_t{400} << 20));
  int64_t beside = 0;
  for (const auto& item : memory.at("beside")) beside += item.at("bytes").get<int64_t>();
  EXPECT_EQ(beside, (int64_t{192} << 30) - memory.at("limit_bytes").get<int64_t>());
  EXPECT_EQ(memory.at("ranks"), 1);
  EXPECT_EQ(memory.at("recompute"), "block");
  int64_t sum = 0, activations = 0;
  for (const auto& item : memory.at("items")) sum += item.at("bytes").get<int64_t>();
  for (const auto& item : memory.at("activations")) activations += item.at("bytes").get<int64_t>();
  EXPECT_EQ(sum, memory.at("total_bytes"));
  const auto& first = memory.at("items")[0];
  EXPECT_EQ(first.at("name"), "weights, bfloat16");
  EXPECT_NEAR(first.at("bytes").get<double>() / static_cast<double>(2 * parameters), 1, 1e-4);
  EXPECT_EQ(memory.at("items").back(), nlohmann::json({{"name", "activations"}, {"bytes", activations}}));

  const auto& step = plan.at("step");
  EXPECT_EQ(step.at("tokens"), 512 * S);
  EXPECT_EQ(step.at("efficiency"), 0.5);
  const double computing = 512 * static_cast<double>(S) * (causal + again) / (64 * 1e14 * 0.5);
  // Reads master, gradient and moments of 1/64, and writes all but the gradient, at 5.3 TB/s.
  const double update = static_cast<double>(parameters) / 64 * 28 / 5.3e12, seconds = computing + update;
  EXPECT_NEAR(step.at("parts").at("compute").get<double>(), computing, 1e-9 * seconds);
  EXPECT_NEAR(step.at("parts").at("update").get<double>(), update, 1e-6 * seconds);
  EXPECT_NEAR(step.at("seconds").get<double>(), seconds, 1e-9 * seconds);
  EXPECT_NEAR(step.at("tokens_per_second").get<double>(), 512 * S / seconds, 1e-6);
  const auto& time = plan.at("run");
  EXPECT_EQ(time.at("steps"), 238419);
  EXPECT_EQ(time.at("tokens"), 238419.0 * 512 * S);
  EXPECT_NEAR(time.at("seconds").get<double>(), 238419 * seconds, 1e-3);
  EXPECT_EQ(time.at("devices"), 64);
  EXPECT_EQ(time.at("nodes"), 8.0);
  EXPECT_NEAR(time.at("device_hours").get<double>(), 64 * 238419 * seconds / 3600, 1e-3);
  EXPECT_NEAR(time.at("node_hours").get<double>(), 8 * 238419 * seconds / 3600, 1e-3);
}

TEST_F(PlanCommand, WhatIsNotKnownIsNullInJsonAndWhatDoesNotFitIsAnErrorBehindIt) {
  const CommandResult result =
      run("run.toml --device a100 --set training.mixed_precision_param=float32 --json 2>error || exit $?");
  EXPECT_EQ(result.exit_code, 2);
  const auto plan = nlohmann::json::parse(result.output);
  EXPECT_EQ(plan.at("memory").at("fits"), false);
  EXPECT_TRUE(plan.at("device").at("gemm_flops").is_null());
  EXPECT_TRUE(plan.at("step").is_null() && plan.at("run").is_null());
  EXPECT_TRUE(read_file(folder / "error").starts_with("error: the training needs "));
}

TEST_F(PlanCommand, ARunOnAGpuIsPlannedForOneThatIsNamed) {
  const std::string words = "run.toml --set training.device=cuda --set parallelism.data_parallel_shard_degree=1";
  const CommandResult result = run(words);
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.output, HasSubstr("give --device, one of A100, H100, H200")) << result.output;
  const CommandResult named = run(words + " --device H200 --set memory.recompute=auto");
  EXPECT_THAT(named.output, HasSubstr("    weights, bfloat16 ")) << named.output;
  EXPECT_THAT(named.output, HasSubstr("    GPU kernels' workspace ")) << named.output;
}

TEST_F(PlanCommand, WithoutARateThereIsNoTime) {
  const CommandResult result =
      run("run.toml --device A100 --set training.mixed_precision_param=float32 --set memory.recompute=auto "
          "--set parallelism.data_parallel_shard_degree=512");
  EXPECT_THAT(result.output,
              HasSubstr("  step time    not known: there is no measurement of A100's matrix products in this type\n"))
      << result.output;
}

// A copy of `hearth`, alone or next to the test's own hearth-train.
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
  EXPECT_THAT(result.output, HasSubstr(", 2.50 TFLOP/s in matrix products (measured now)\n")) << result.output;
  EXPECT_THAT(result.output, HasSubstr("  step time    4.19 M tokens in 1 d 07 h, 36 per second, at 75 %"))
      << result.output;
  EXPECT_THAT(result.output, Not(HasSubstr("noise")));
}

TEST_F(PlanHere, WhereItCannotBeMeasuredThereIsNoTime) {
  const std::string expected = "  step time    not known: hearth-train, which measures matrix products, ";
  EXPECT_THAT(run_here("").output, HasSubstr(expected));
  for (const char* script : {"echo '{\"gemm_flops\": 1e12}'\nexit 127\n", "echo something\n", "kill -9 $$\n"}) {
    write_hearth_train(script);
    EXPECT_THAT(run_here("").output, HasSubstr(expected)) << script;
  }
}

}  // namespace
}  // namespace hearth::commands
