// SPDX-License-Identifier: Apache-2.0
// Ranks that a launcher starts, each with a command line, a folder and files of its own: they train as one run, or one
// error names the rank that has something else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "run_process.h"

namespace hearth::train {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

int count_of(const std::string& text, const std::string& part) {
  int count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

struct Launched : TinyData {
  Launched() {
    for (const char* rank : {"0", "1"}) make_folders(scratch / rank);
  }
  config::RunConfig of_two(const std::string& name) const {
    config::RunConfig c = tiny_config(scratch);
    c.job.dump_folder = (scratch / name).string();
    c.data.path = (scratch / "data").string();
    c.training.threads = 2;
    c.training.steps = 6;
    c.parallelism.data_parallel_shard_degree = 2;
    return c;
  }
  // Each rank in its own folder, SCRATCH/0 and SCRATCH/1, as torchrun starts them on one host.
  std::string rank(int number, const std::string& words) const {
    return fmt::format("(cd {0}/{1}; RANK={1} WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 MASTER_PORT={2} {3} train {4})",
                       scratch.path().string(), number, 20000 + ::getpid() % 20000, train_binary(), words);
  }
  test::CommandResult start(const std::string& words_0, const std::string& words_1) const {
    return test::run_command(
        fmt::format("{} 2>&1 & {} 2>&1; code=$?; wait; exit $code", rank(1, words_1), rank(0, words_0)));
  }
  test::CommandResult start(const std::string& words) const { return start(words, words); }
  void write(const config::RunConfig& c, const std::string& name) const {
    write_file_atomic(scratch / name, config::to_toml(c));
  }
};

TEST_F(Launched, WithOtherOptionsAreRefusedByRankHostAndKey) {
  write(of_two("run"), "run.toml");
  const std::string run = (scratch / "run.toml").string();
  const std::pair<std::string, std::string> cases[] = {
      {"--set optimizer.lr=0.5", "optimizer.lr = 0.5, and "},
      {"--set training.seed=1", "training.seed = 1, and 0 on rank 0"},
      {"--set model.rope_theta=7 --set training.max_norm=0.25", "training.max_norm = 0.25, and "},
      {"--set parallelism.zero_stage=3", "parallelism.zero_stage = 3, and 1 on rank 0"},
      {"--set checkpoint.interval=3", "checkpoint.interval = 3, and "},
      {"--set data.path=other", "data.path = \""},
      {"--set training.stepz=3", "training.stepz is not a key"},
      {"--restart", "--restart: given, and not given on rank 0"},
  };
  for (const auto& [options, said] : cases) {
    const test::CommandResult result = start(run, run + " " + options);
    EXPECT_EQ(result.exit_code, 2) << options << result.output;
    EXPECT_THAT(result.output, ContainsRegex("error: rank 1 \\(.+, process [0-9]+\\) was started with another run"))
        << options;
    EXPECT_THAT(result.output, HasSubstr(said));
    EXPECT_EQ(count_of(result.output, "error:"), 1) << result.output;
    EXPECT_EQ(count_of(result.output, "process "), 1) << result.output;
  }
  EXPECT_FALSE(path_exists(scratch / "run"));
}

TEST_F(Launched, WaitForTheOthersAsLongAsTheRunFileSays) {
  config::RunConfig c = of_two("run");
  c.comm.init_timeout_seconds = 0.5;
  write(c, "run.toml");
  const std::string run = (scratch / "run.toml").string();
  for (const auto& [alone, said] : {std::pair{0, "error: rank 1 did not start within 0.5 s"},
                                    std::pair{1, "error: rank 1 did not find rank 0 within 0.5 s"}}) {
    const test::CommandResult result = test::run_command(rank(alone, run) + " 2>&1");
    EXPECT_EQ(result.exit_code, 4);
    EXPECT_THAT(result.output, testing::StartsWith(said));
  }
}

// Another path of the same file, and the same values in another order.
TEST_F(Launched, WithOtherWordsForTheSameRunTrain) {
  write(of_two("run"), "run.toml");
  const std::string run = (scratch / "run.toml").string();
  const test::CommandResult result = start(run + " --set optimizer.lr=0.001 --set training.seed=3",
                                           "../run.toml --set training.seed=3 --set optimizer.lr=1e-3");
  EXPECT_EQ(result.exit_code, 0) << result.output;
}

// A host's cache may still have the file as it was before an edit, or no file at all.
TEST_F(Launched, WhoseRunFileIsAnOldCopyTrainWithThatOfRankZero) {
  const config::RunConfig expected_run = of_two("expected");
  const auto expected = [&] {
    write(expected_run, "0/run.toml");
    write(expected_run, "1/run.toml");
    EXPECT_EQ(start("run.toml").exit_code, 0);
    return metrics::read_metrics(scratch / "expected" / "metrics.jsonl");
  }();
  config::RunConfig now = of_two("run"), old = now;
  old.optimizer.lr *= 10;
  old.training.seed = 5;
  write(now, "0/run.toml");
  write(old, "1/run.toml");
  const test::CommandResult result = start("run.toml");
  EXPECT_EQ(result.exit_code, 0) << result.output;
  expect_same_training(metrics::read_metrics(scratch / "run" / "metrics.jsonl"), expected);

  now.job.dump_folder = (scratch / "without").string();
  write(now, "0/run.toml");
  std::filesystem::remove(scratch / "1" / "run.toml");
  EXPECT_EQ(start("run.toml").exit_code, 0);
  expect_same_training(metrics::read_metrics(scratch / "without" / "metrics.jsonl"), expected);
}

// The path is one, and what the two hosts have there is not.
TEST_F(Launched, ThatFindOtherFilesAtOnePathAreRefusedByRankHostAndKey) {
  std::filesystem::rename(scratch / "data", scratch / "0" / "data");
  write_file_atomic(scratch / "text" / "0.txt", tiny_text(77, 400));
  data::BuildOptions other;
  other.out = scratch / "1" / "data";
  other.paths = {scratch / "text"};
  other.rules.validation = 0.3;
  data::BuildProgress progress;
  data::build_dataset(other, progress);
  config::RunConfig c = of_two("run");
  c.data.path = "/proc/self/cwd/data";
  write(c, "run.toml");
  const std::string run = (scratch / "run.toml").string();
  const test::CommandResult data = start(run);
  EXPECT_EQ(data.exit_code, 2) << data.output;
  EXPECT_THAT(data.output, HasSubstr("data.path: /proc/self/cwd/data has another content on rank 1 ("));
  EXPECT_EQ(count_of(data.output, "error:"), 1) << data.output;

  std::filesystem::remove_all(scratch / "1" / "data");
  const test::CommandResult missing = start(run);
  EXPECT_EQ(missing.exit_code, 2) << missing.output;
  EXPECT_THAT(missing.output, ContainsRegex("rank: rank 1 \\(.+, process [0-9]+\\)"));

  // The same data, and other weights to begin with.
  std::filesystem::copy(scratch / "0" / "data", scratch / "1" / "data", std::filesystem::copy_options::recursive);
  EXPECT_EQ(start(run).exit_code, 0);
  const Path step = scratch / "run" / "checkpoints" / "step-00000006";
  for (const char* rank : {"0", "1"})
    std::filesystem::copy(step, scratch / rank / "start", std::filesystem::copy_options::recursive);
  config::RunConfig again = c;
  again.job.dump_folder = (scratch / "again").string();
  again.training.seed = 9;
  write(again, "run.toml");
  ASSERT_EQ(start(run).exit_code, 0);
  std::filesystem::remove_all(scratch / "1" / "start");
  std::filesystem::copy(scratch / "again" / "checkpoints" / "step-00000006", scratch / "1" / "start",
                        std::filesystem::copy_options::recursive);
  c.job.dump_folder = (scratch / "third").string();
  c.checkpoint.initial_load_path = "/proc/self/cwd/start";
  write(c, "run.toml");
  const test::CommandResult weights = start(run);
  EXPECT_EQ(weights.exit_code, 2) << weights.output;
  EXPECT_THAT(weights.output,
              HasSubstr("checkpoint.initial_load_path: /proc/self/cwd/start has another content on rank 1 ("));
}

// Open MPI gives each rank a terminal, and writes to its own output what comes out of it.
TEST_F(Launched, DrawNoProgressBarOnTheTerminalOfALauncher) {
  if (!path_exists("/usr/bin/script")) GTEST_SKIP() << "script, which gives a program a terminal, is not here";
  for (const bool launched : {true, false}) {
    config::RunConfig c = of_two(launched ? "launched" : "alone");
    c.parallelism.data_parallel_shard_degree = 1;
    write(c, "run.toml");
    const std::string line = fmt::format("{} train {}", train_binary(), (scratch / "run.toml").string());
    const test::CommandResult result =
        test::run_command(fmt::format("{} script -qec '{}' /dev/null < /dev/null",
                                      launched ? "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1 "
                                                 "OMPI_COMM_WORLD_LOCAL_SIZE=1"
                                               : "",
                                      line));
    EXPECT_EQ(result.exit_code, 0) << result.output;
    EXPECT_EQ(count_of(result.output, "\x1b[K") == 0, launched) << result.output;
  }
}

// The usual limit of shells is 1,024 files, and the system allows many more.
TEST_F(Launched, RaiseTheLimitOfOpenFiles) {
  config::RunConfig c = of_two("run");
  c.training.global_batch_size = 48;
  c.training.threads = 24;
  c.training.steps = 2;
  c.lr_scheduler.warmup_steps = 0;
  c.parallelism.data_parallel_shard_degree = 24;
  write(c, "run.toml");
  const test::CommandResult result =
      test::run_command(fmt::format("ulimit -Sn 32; {} train {}", train_binary(), (scratch / "run.toml").string()));
  EXPECT_EQ(result.exit_code, 0) << result.output;
}

TEST_F(Launched, GoOnWhereTheReaderOfTheirOutputEnds) {
  write(of_two("run"), "run.toml");
  const test::CommandResult result =
      test::run_command(fmt::format("{} train {} | head --lines=1", train_binary(), (scratch / "run.toml").string()));
  EXPECT_EQ(result.exit_code, 0);
  for (int i = 0; i < 600'000 && !path_exists(scratch / "run" / "done.json"); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_TRUE(path_exists(scratch / "run" / "done.json"));
}

// Rank 0 does not know what another rank was given.
TEST_F(Launched, OptionsThatStartRanksAreRefusedByTheRankThatHasThem) {
  write(of_two("run"), "run.toml");
  const std::string run = (scratch / "run.toml").string();
  for (const char* option : {" --max-restarts 3", " --ranks 2"}) {
    for (const auto& [words_0, words_1] : {std::pair{run, run + option}, std::pair{run + option, run + option}}) {
      const test::CommandResult result = start(words_0, words_1);
      EXPECT_EQ(result.exit_code, 2) << option << result.output;
      EXPECT_THAT(result.output, HasSubstr("was given to a process that"));
      EXPECT_EQ(count_of(result.output, "error:"), 1) << result.output;
    }
  }
  EXPECT_FALSE(path_exists(scratch / "run"));
}

TEST_F(Launched, TimeTheirStepsInTheLayoutThatTheirNumberGives) {
  config::RunConfig c = of_two("run");
  c.parallelism.data_parallel_shard_degree = -1;
  write(c, "run.toml");
  const auto rank = [&](int number) {
    return fmt::format("(RANK={} WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 MASTER_PORT={} {} bench step {} --steps 1 --json)",
                       number, 20000 + ::getpid() % 20000, train_binary(), (scratch / "run.toml").string());
  };
  const test::CommandResult result =
      test::run_command(fmt::format("{} & {}; code=$?; wait; exit $code", rank(1), rank(0)));
  EXPECT_EQ(result.exit_code, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("\"tokens_per_step\": "));
}

// The run's lock would be file 1, and the lines of the steps would be written into it.
TEST_F(Launched, PrintIntoNoFileWhereTheCallerClosedTheirOutput) {
  for (const int64_t ranks : {1, 2}) {
    for (const auto& [given, name] : {std::pair{">&- 2>&- <&-", "closed"}, std::pair{">/dev/full 2>&1", "full"}}) {
      config::RunConfig c = of_two(fmt::format("{}-{}", name, ranks));
      c.parallelism.data_parallel_shard_degree = ranks;
      write(c, "run.toml");
      const std::string command =
          fmt::format("({} train {} {})", train_binary(), (scratch / "run.toml").string(), given);
      EXPECT_EQ(test::run_command(command).exit_code, 0) << command;
      EXPECT_TRUE(path_exists(c.run_folder() / "done.json")) << command;
      for (const auto& file : std::filesystem::recursive_directory_iterator(c.run_folder())) {
        if (file.is_regular_file() && file.path().extension() != ".log") {
          EXPECT_EQ(read_file(file.path()).find("step 6/6"), std::string::npos) << file.path();
        }
      }
    }
  }
}

// A script of the site between the launcher and the ranks, which does not end in exec.
TEST_F(Launched, MeetThroughAScriptThatStandsBetween) {
  write_file_atomic(scratch / "wrap.sh", "#!/bin/bash\nexport SOME=thing\n\"$@\"\nexit $?\n");
  std::filesystem::permissions(scratch / "wrap.sh", std::filesystem::perms(0700));
  for (const std::string mpirun :
       {"/usr/bin/mpirun.openmpi --allow-run-as-root --oversubscribe", "/usr/bin/mpirun.mpich"}) {
    if (!path_exists(mpirun.substr(0, mpirun.find(' ')))) continue;
    config::RunConfig c = of_two(mpirun.find("mpich") != std::string::npos ? "mpich" : "openmpi");
    write(c, "run.toml");
    const test::CommandResult result =
        test::run_command(fmt::format("{} -n 2 {}/wrap.sh {} train {}/run.toml", mpirun, scratch.path().string(),
                                      train_binary(), scratch.path().string()));
    EXPECT_EQ(result.exit_code, 0) << result.output;
    EXPECT_THAT(result.output, HasSubstr("2 ranks"));
  }
}

}  // namespace
}  // namespace hearth::train
