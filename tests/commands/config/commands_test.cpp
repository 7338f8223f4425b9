// SPDX-License-Identifier: Apache-2.0
// config show, check and docs; and the errors that train, eval, generate and bench step find before they load LibTorch.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>

#include "base/text.h"
#include "commands/torch_options.h"
#include "config/load.h"
#include "plan/parameters.h"
#include "support/environment.h"

namespace hearth::commands {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

using test::CommandResult;
using test::run_command;

std::string hearth() { return test::hearth_binary() + " "; }

constexpr const char* kComplete =
    "[data]\npath = \"d\"\n[training]\nsteps = 100\nlocal_batch_size = 4\nglobal_batch_size = 16\nseq_len = 64\n"
    "[lr_scheduler]\nwarmup_fraction = 0.1\n";

constexpr const char* kFiveErrors =
    "[training]\nsetps = 100\nseq_len = \"long\"\n[optimizer]\nbeta2 = 1.5\n[lr_scheduler]\ndecay_type = \"cubic\"\n"
    "[data]\npath = \"d\"\n";

class ConfigCommandsTest : public ::testing::Test {
 protected:
  ConfigCommandsTest() {  // looks like a dataset
    make_folders(folder_ / "d");
    file("d/manifest.json", "{}");
  }
  std::string file(const std::string& name, const std::string& text) {
    write_file_atomic(folder_ / name, text);
    return (folder_ / name).string();
  }
  // Runs inside the scratch folder: messages then have a user's short paths.
  CommandResult run(const std::string& words) {
    return run_command("cd " + folder_.path().string() + " && " + hearth() + words);
  }
  test::ScratchFolder folder_;
};

TEST_F(ConfigCommandsTest, GenerateTakesOneTextAndNothingThatItWouldNotObey) {
  HEARTH_NEEDS_TRAINER();
  const auto error = [&](const std::string& words) { return run("generate --checkpoint none " + words).output; };
  EXPECT_THAT(error(""), AllOf(HasSubstr("--prompt"), HasSubstr("--fill"), HasSubstr("--prompts")));
  EXPECT_THAT(error("--prompt '' --fill ''"), HasSubstr("error: --prompt and --fill"));
  EXPECT_THAT(error("--fill ''"), AllOf(HasSubstr("--fill is empty"), HasSubstr("[MASK]")));
  for (const char* option :
       {"--max-tokens 200", "--n-fixed 3", "--context 2", "--out a.npy", "--picture a.png", "--stop x"}) {
    const std::string name = std::string(option).substr(0, std::string(option).find(' '));
    EXPECT_THAT(error(fmt::format("--fill '[MASK]' {}", option)),
                AllOf(HasSubstr(fmt::format("error: {} ", name)), HasSubstr("--fill"), HasSubstr("leave out ")));
  }
  EXPECT_THAT(error("--prompt a --prompts b --fill c"), HasSubstr("error: --prompt and --prompts and --fill"));
  EXPECT_THAT(error("--prompts a"), AllOf(HasSubstr("error: --prompts"), HasSubstr("--out FILE.jsonl")));
  EXPECT_THAT(error("--prompts a --out b --picture c.png"),
              AllOf(HasSubstr("error: --picture"), HasSubstr("--prompts")));
  EXPECT_THAT(error("--prompt a --batch-size 3"), AllOf(HasSubstr("error: --batch-size"), HasSubstr("--prompts")));
  EXPECT_THAT(error("--prompt a --stop ''"), HasSubstr("--stop is empty"));
  for (const char* words : {"--prompt ''", "--fill '[MASK]' --seed 1 --temperature 0"})
    EXPECT_THAT(error(words), Not(HasSubstr(" --"))) << error(words);  // the error is about the missing checkpoint
}

TEST_F(ConfigCommandsTest, AnImportIsARunFileThatCheckAccepts) {
  file("theirs.toml",
       "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nbatch_size = 2\nseq_len = 64\nwarmup_steps = 5\n"
       "steps = 100\ndataset = \"full_set\"\ndata_parallel_shard_degree = 4\n");
  const CommandResult made = run("config import theirs.toml --out run.toml");
  EXPECT_EQ(made.exit_code, 0);
  EXPECT_THAT(made.output, HasSubstr("run.toml: 14 keys, from 8 of torchtitan\n"));
  EXPECT_THAT(run("config check run.toml").output,
              HasSubstr("data.path = \"data/full_set\": data/full_set does not exist"));
  make_folders(folder_ / "data/full_set");
  file("data/full_set/manifest.json", "{}");
  const CommandResult checked = run("config check run.toml");
  EXPECT_EQ(checked.exit_code, 0) << checked.output;
  EXPECT_THAT(checked.output, HasSubstr("512 tokens = 4 ranks x 1 micro-batch x 2 sequences x 64 tokens"));
  EXPECT_EQ(run("config import theirs.toml").output, read_file(folder_ / "run.toml"));
  const CommandResult again = run("config import theirs.toml --out run.toml");
  EXPECT_EQ(again.exit_code, 2);
  EXPECT_THAT(again.output, HasSubstr("error: run.toml exists"));
  EXPECT_EQ(run("config import theirs.toml --ranks 3").exit_code, 2);
  EXPECT_THAT(run("config import none.toml").output, HasSubstr("none.toml"));
  // A command comes from stdin, too; a script does not.
  file("command.txt", "torchrun --nproc_per_node 2 run_clm.py --max_steps 10 --block_size 64\n");
  const CommandResult pasted = run("config import - < command.txt");
  EXPECT_EQ(pasted.exit_code, 0);
  EXPECT_THAT(pasted.output, HasSubstr("# stdin:1 --max_steps\n"));
  file("train.sh", "LR=$1\nrun_clm.py --learning_rate $LR\n");
  const CommandResult script = run("config import - < train.sh");
  EXPECT_EQ(script.exit_code, 2);
  EXPECT_THAT(script.output, HasSubstr("stdin:1: this is a script, and scripts are not run here"));
}

TEST_F(ConfigCommandsTest, CheckSaysWhatARunFileAmountsTo) {
  file("run.toml", kComplete);
  const CommandResult result = run("config check run.toml");
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.output,
            "run.toml has no errors\n"
            "  run folder  .\n"
            "  data        d\n"
            "  step        1024 tokens = 1 rank x 4 micro-batches x 4 sequences x 64 tokens\n"
            "  length      100 steps, 102 k tokens\n");
}

TEST_F(ConfigCommandsTest, CheckRefusesRanksThatCannotShareTheModel) {
  file("run.toml", kComplete);
  constexpr const char* kSets = " --set model.vocab_size=300 --set model.n_kv_heads=1";
  EXPECT_THAT(run(fmt::format("config check run.toml{} --set parallelism.tensor_parallel_degree=2", kSets)).output,
              HasSubstr("tensor_parallel_degree = 2 does not divide"));
}

TEST_F(ConfigCommandsTest, CheckSaysWhereTheDataDecidesTheLength) {
  file("run.toml", "[data]\npath = \"d\"\n[training]\nepochs = 2.5\n");
  EXPECT_THAT(run("config check run.toml").output,
              HasSubstr("  length      2.5 epochs; how many steps that is depends on the data\n"));
}

TEST_F(ConfigCommandsTest, CheckComparesTheModelWithTheWeightsThatTheRunBeginsWith) {
  ASSERT_EQ(
      run_command("python3 " + test::source_path("tests/hub/tiny_model.py") + " " + (folder_ / "m").string()).exit_code,
      0);
  const std::string model = run("inspect --model m").output;
  file("run.toml", kComplete + model + "[checkpoint]\ninitial_load_path = \"m\"\n");
  const CommandResult fits = run("config check run.toml");
  EXPECT_EQ(fits.exit_code, 0) << fits.output;
  EXPECT_THAT(fits.output, HasSubstr("  first weights  m\n"));
  // Shapes, and what they do not show.
  const CommandResult other =
      run("config check run.toml --set model.n_layers=3 --set model.n_heads=4 --set model.sliding_window=64");
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_THAT(other.output, HasSubstr("m holds the weights of another model:\n"));
  EXPECT_THAT(other.output, HasSubstr("model.n_heads: 2 -> 4\n"));
  EXPECT_THAT(other.output, HasSubstr("model.sliding_window: 0 -> 64\n"));
  EXPECT_THAT(other.output, HasSubstr("layers.2.attention.wq.weight: missing in the checkpoint\n"));
  EXPECT_THAT(other.output, ContainsRegex("run.toml:[0-9]+: m does not fit the model:\n"));
  EXPECT_THAT(run("config check run.toml --set model.n_layers=3 --set 'checkpoint.fresh=[\"layers.2\"]'").output,
              HasSubstr("begins with initial values: layers.2."));
  file("m/adapter_config.json", "{}");
  EXPECT_THAT(run("config check run.toml").output, HasSubstr("has an adapter of PEFT beside the weights"));
}

TEST_F(ConfigCommandsTest, CheckAndTrainReportAllErrorsAndExitWithTwo) {
  file("run.toml", kFiveErrors);
  for (const char* words : {"config check run.toml", "train run.toml"}) {
    const CommandResult result = run(words);
    EXPECT_EQ(result.exit_code, 2);
    // hearth-train, if it is built, also finds that there are no data.
    EXPECT_TRUE(std::regex_search(result.output, std::regex("^error: run.toml has [56] errors\n"))) << result.output;
    for (const char* line :
         {"\n  run.toml:2: training.setps", "\n  run.toml:3: training.seq_len", "\n  run.toml:5: optimizer.beta2",
          "\n  run.toml:7: lr_scheduler.decay_type", "\n  run.toml: the length of the training is not given"})
      EXPECT_THAT(result.output, HasSubstr(line)) << line << "\n" << result.output;
  }
}

TEST_F(ConfigCommandsTest, WhatShowPrintsIsARunFileWithTheSameValues) {
  const std::string given = file("run.toml", std::string(kComplete) + "[model]\nflavor = \"debugmodel\"\n");
  const CommandResult shown = run("config show run.toml --set optimizer.lr=1e-3");
  EXPECT_EQ(shown.exit_code, 0);
  const std::string resolved = file("resolved.toml", shown.output);
  EXPECT_EQ(config::to_toml(config::load(resolved, {})), config::to_toml(config::load(given, {"optimizer.lr=1e-3"})));
}

TEST_F(ConfigCommandsTest, ShowSaysWhereEveryValueComesFrom) {
  file("run.toml", std::string(kComplete) + "[model]\nflavor = \"debugmodel\"\n");
  const std::string shown = run("config show run.toml --set optimizer.lr=1e-3").output;
  const auto line_of = [&shown](const std::string& start) {
    for (const std::string& line : split_lines(shown)) {
      if (line.starts_with(start)) return line;
    }
    return std::string("no line");
  };
  EXPECT_THAT(line_of("lr = 0.001 "), HasSubstr("# --set "));
  EXPECT_THAT(line_of("seq_len = 64 "), HasSubstr("# line 7 "));
  EXPECT_THAT(line_of("n_layers = 8 "), HasSubstr("# flavor debugmodel "));
  EXPECT_THAT(line_of("beta1 = 0.9 "), HasSubstr("# default "));
  EXPECT_THAT(line_of("seq_len"), HasSubstr("tokens: length of a sequence"));
}

TEST_F(ConfigCommandsTest, ShowCountsTheParameters) {
  file("run.toml", std::string(kComplete) + "[model]\nflavor = \"debugmodel\"\n");
  const auto second_line = [&](const std::string& sets) {
    return split_lines(run("config show run.toml" + sets).output).at(1);
  };
  // 8 (4 x 256^2 + 3 x 256 x 768 + 2 x 256) + 256
  EXPECT_EQ(second_line(""),
            "# 8 layers, width 256, 16 heads of 16 (16 for keys and values), feed-forward 768: 6820096 parameters, and "
            "512 for "
            "each token of the vocabulary");
  EXPECT_EQ(second_line(" --set model.name=llama3.2 --set model.flavor=1B --set model.vocab_size=128256"),
            "# 16 layers, width 2048, 32 heads of 64 (8 for keys and values), feed-forward 8192, vocabulary 128256: "
            "1235814400 parameters");
  EXPECT_EQ(second_line(" --set model.n_heads=3"), "# the keys of [model] conflict: hearth config check says why");
  // With data the number is exact: two matrices of a byte's 256 ids and two more.
  file("one.txt", "some text");
  ASSERT_EQ(run("data build --out real --tokenizer bytes one.txt").exit_code, 0);
  EXPECT_TRUE(second_line(" --set data.path=real")
                  .ends_with(fmt::format(", vocabulary 258: {} parameters", 6820096 + 2 * 258 * 256)))
      << second_line(" --set data.path=real");
}

TEST_F(ConfigCommandsTest, TheManualInTheRepositoryIsWhatDocsPrints) {
  const CommandResult docs = run("config docs");
  EXPECT_EQ(docs.exit_code, 0);
  EXPECT_EQ(docs.output, read_file(test::source_path("docs/config.md")))
      << "docs/config.md is out of date: hearth config docs > docs/config.md";
}

TEST_F(ConfigCommandsTest, TheManualHasARowForEveryKey) {
  const std::string docs = run("config docs").output;
  for (const config::Field& field : config::fields()) {
    const std::string row = fmt::format("\n| `{}` | `{}", field.key, config::to_toml_value(field.default_value()));
    EXPECT_NE(docs.find(row, docs.find(fmt::format("## [{}]", field.section))), std::string::npos) << field.name();
  }
}

TEST_F(ConfigCommandsTest, TheKeysOfASectionAreListedInShort) {
  for (const std::string& section : config::section_names()) {
    const std::string keys = run("config docs " + section).output;
    EXPECT_TRUE(keys.starts_with(fmt::format("[{}]  ", section))) << keys;
    for (const auto& fields : {config::fields(), config::list_fields()}) {
      for (const config::Field& field : fields) {
        if (field.section != section && !field.section.starts_with(section + ".")) continue;
        EXPECT_THAT(keys,
                    HasSubstr(fmt::format("\n  {} = {}", field.key, config::to_toml_value(field.default_value()))));
      }
    }
    for (const std::string& line : split_lines(keys)) EXPECT_LE(line.size(), 80U) << line;
  }
  const CommandResult none = run("config docs optimiser");
  EXPECT_EQ(none.exit_code, 2);
  EXPECT_THAT(none.output, HasSubstr("there is no section \"optimiser\" in a run file\n  fix: one of: "));
  EXPECT_THAT(none.output, HasSubstr("optimizer"));
}

TEST_F(ConfigCommandsTest, TrainHelpNamesTheSectionsAndFitsATerminal) {
  const std::string help = run("train --help").output;
  const size_t begin = help.find("`hearth config docs SECTION`");
  ASSERT_NE(begin, std::string::npos) << help;
  for (const std::string& section : config::section_names())
    EXPECT_THAT(help.substr(begin), ContainsRegex("[ \n]" + section + "[ \n]"));
  EXPECT_LE(split_lines(help).size(), 30U) << help;
}

// "Before anything is touched": no run folder, no LibTorch.
TEST_F(ConfigCommandsTest, CheckAndTrainNameADatasetThatIsNotThereBesideTheOtherErrors) {
  file("run.toml",
       "[data]\npath = \"books\"\n[training]\nsteps = 100\nlocal_batch_size = 0\n"
       "[lr_scheduler]\nwarmup_steps = 0\n[job]\ndump_folder = \"out\"\n");
  for (const char* words : {"config check run.toml", "train run.toml"}) {
    const CommandResult result = run(words);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_EQ(result.output,
              "error: run.toml has 2 errors\n"
              "  run.toml:2: data.path = \"books\": books does not exist\n"
              "      fix: paths start at the run file's folder; `hearth data build --out DIR ...` makes a dataset\n"
              "  run.toml:5: training.local_batch_size = 0 is out of range\n"
              "      fix: give at least 1, at most 1048576\n");
  }
  EXPECT_FALSE(path_exists(folder_ / "out"));
}

// The 56 M of docs and bench/results/, counted here: two embeddings, eight blocks, a norm.
TEST_F(ConfigCommandsTest, BenchStepTimes56MParametersWhereNothingElseIsSaid) {
  constexpr Command kCommand = {"Training", "bench step", "", "", nullptr};
  const auto config_of = [&](std::vector<std::string> words) {
    CommandLine line("hearth", kCommand, std::move(words));
    return bench_step_options(line)->config;
  };
  const auto shape_of = [&](const config::RunConfig& c) { return plan::model_shape(c.model, 0); };
  config::RunConfig c = config_of({});
  const int64_t D = 512, F = 1408, V = 32000;
  EXPECT_EQ(plan::parameter_plan(shape_of(c)).num_parameters,
            2 * V * D + 8 * (2 * D * D + D * D + 3 * D * F + 2 * D) + D);
  EXPECT_EQ(shape_of(c).H, 8);
  EXPECT_EQ(shape_of(c).G, 4);
  EXPECT_EQ(c.training.seq_len, 1024);
  EXPECT_EQ(c.training.local_batch_size, 4);
  EXPECT_EQ(c.training.global_batch_size, -1);
  EXPECT_EQ(c.training.dtype, DType::kFloat32);

  c = config_of({"--n-heads", "2", "--dim", "64"});  // key/value heads and the feed-forward width are derived
  EXPECT_EQ(shape_of(c).G, 2);
  EXPECT_EQ(shape_of(c).F(), 192);
  EXPECT_EQ(shape_of(c).L(), 8);
  c = config_of({"--flavor", "8B"});
  EXPECT_EQ(shape_of(c).D, 4096);
  EXPECT_EQ(shape_of(c).F(), 14336);
  EXPECT_EQ(c.training.seq_len, 1024);

  // A run file has its own shape.
  c = config_of({file("run.toml", "[model]\ndim = 128\n")});
  EXPECT_EQ(shape_of(c).L(), 4);
  EXPECT_EQ(c.training.seq_len, 2048);
  EXPECT_EQ(c.model.vocab_size, 32000);
}

TEST_F(ConfigCommandsTest, BenchStepReportsAShapeThatCannotBe) {
  const CommandResult result = run("bench step --dim 64 --n-heads 3 --seq-len 0");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.output,
            "error: the command line has 2 errors\n"
            "  command line: training.seq_len = 0 is out of range\n"
            "      fix: give at least 1, at most 16777216\n"
            "  command line: model.n_heads = 3 does not divide model.dim = 64\n"
            "      fix: every head has dim / n_heads elements; give model.head_dim for another width\n");
}

TEST_F(ConfigCommandsTest, AMissingHearthTrainIsNamedWithTheFix) {
  // A folder with only a copy of `hearth`, and a PATH without hearth-train.
  file("run.toml", kComplete);
  std::filesystem::copy_file(test::hearth_binary(), folder_ / "hearth");
  const CommandResult result =
      run_command("cd " + folder_.path().string() + " && PATH=/usr/bin:/bin ./hearth train run.toml");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.output,
            fmt::format("error: hearth-train is not there\n  why: neither next to hearth in {} nor in PATH\n  fix: "
                        "build it: cmake --preset release && ninja -C build/release hearth-train\n",
                        std::filesystem::canonical(folder_.path()).string()));
}

TEST_F(ConfigCommandsTest, AHearthTrainBesideHearthGetsTheSameArguments) {
  file("run.toml", kComplete);
  std::filesystem::copy_file(test::hearth_binary(), folder_ / "hearth");
  file("hearth-train", "#!/bin/sh\nprintf '<%s>' \"$@\"\nexit 75\n");
  std::filesystem::permissions(folder_ / "hearth-train", std::filesystem::perms::owner_all);
  const CommandResult result = run_command("cd " + folder_.path().string() +
                                           " && ./hearth train run.toml --set job.description='a b' --restart");
  EXPECT_EQ(result.exit_code, 75);
  EXPECT_EQ(result.output, "<train><run.toml><--set><job.description=a b><--restart>");
  EXPECT_EQ(run_command("cd " + folder_.path().string() + " && ./hearth bench step --dim 64").output,
            "<bench><step><--dim><64>");
  // hearth-train reports a run file's errors, because it knows more of them. A file that is not a run file never gets
  // there.
  EXPECT_EQ(
      run_command("cd " + folder_.path().string() + " && ./hearth train run.toml --set training.seed=x").exit_code, 75);
  file("run.toml", "[training\n");
  EXPECT_EQ(run_command("cd " + folder_.path().string() + " && ./hearth train run.toml").exit_code, 2);
}

TEST_F(ConfigCommandsTest, WithoutHearthTrainWhatIsKnownToBeWrongIsSaidAllTheSame) {
  file("run.toml", kComplete);
  std::filesystem::copy_file(test::hearth_binary(), folder_ / "hearth");
  const CommandResult result = run_command("cd " + folder_.path().string() +
                                           " && PATH=/usr/bin:/bin ./hearth train run.toml --set training.seed=x");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.output, "error: --set: training.seed = x: not a whole number\n");
}

// commands/hearth_train.cpp: threads that spin while they wait take the machine's time. A user's setting is kept.
TEST_F(ConfigCommandsTest, HearthTrainsThreadsWaitAsleepUnlessTheUserSaysOtherwise) {
  file("run.toml", kComplete);
  std::filesystem::copy_file(test::hearth_binary(), folder_ / "hearth");
  file("hearth-train", "#!/bin/sh\nprintf '%s' \"$OMP_WAIT_POLICY\"\n");
  std::filesystem::permissions(folder_ / "hearth-train", std::filesystem::perms::owner_all);
  const std::string enter = "cd " + folder_.path().string() + " && ";
  EXPECT_EQ(run_command(enter + "env -u OMP_WAIT_POLICY ./hearth train run.toml").output, "passive");
  EXPECT_EQ(run_command(enter + "OMP_WAIT_POLICY=active ./hearth train run.toml").output, "active");
}

TEST_F(ConfigCommandsTest, AHearthTrainWithoutItsLibrariesIsNamedWithTheFix) {
  // A program whose library is then removed, as with a moved LibTorch.
  file("run.toml", kComplete);
  file("lib.c", "int hearth_test_symbol(void) { return 0; }\n");
  file("main.c", "int hearth_test_symbol(void);\nint main(void) { return hearth_test_symbol(); }\n");
  const CommandResult built = run_command("cd " + folder_.path().string() +
                                          " && cc -shared -fPIC -o libmoved.so lib.c && cc -o hearth-train main.c -L. "
                                          "-lmoved && rm libmoved.so");
  ASSERT_EQ(built.exit_code, 0) << built.output;
  std::filesystem::copy_file(test::hearth_binary(), folder_ / "hearth");
  const CommandResult result = run_command("cd " + folder_.path().string() + " && ./hearth train run.toml");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.output, HasSubstr("/hearth-train lacks libmoved.so\n  why: LibTorch is not where it was"))
      << result.output;
}

}  // namespace
}  // namespace hearth::commands
