// Runs that `hearth submit` starts, under a real Slurm on this machine and without one: they end with the bits of an
// undisturbed run, whatever ends their jobs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <charconv>
#include <chrono>
#include <csignal>
#include <thread>

#include "base/text.h"
#include "checkpoint/manifest.h"
#include "checkpoint/retain.h"
#include "cluster/run_status.h"
#include "cluster/starts.h"
#include "data/build/build.h"
#include "metrics/jsonl.h"
#include "support/hearth_command.h"
#include "support/slurm_cluster.h"

namespace hearth::cluster {
namespace {

using test::Cluster;
using test::CommandResult;
using test::run_hearth;
using testing::AnyOf;
using testing::HasSubstr;

// False after `seconds`.
template <typename Condition>
bool comes_true(Condition condition, int seconds = 240) {
  for (int tenths = 0; tenths < 10 * seconds && !condition(); ++tenths)
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  return condition();
}

class Runs : public testing::Test {
 protected:
  Runs() {
    make_folders(scratch / "text");
    for (int i = 0; i < 8; ++i) {
      std::string text;
      for (int word = 0; word < 2000; ++word) text += fmt::format("word{} ", (word * word + i) % 97);
      write_file_atomic(scratch / "text" / fmt::format("{}.txt", i), text + "\n");
    }
    data::BuildOptions options;
    options.out = scratch / "data";
    options.paths = {scratch / "text"};
    data::BuildProgress progress;
    data::build_dataset(options, progress);
    write_file_atomic(
        toml("cluster"),
        "[job]\nnodes = 1\nranks_per_node = 2\nsignal_lead_seconds = 10\n[environment]\nOMP_NUM_THREADS = 1\n");
  }

  // A run of two ranks whose steps take some milliseconds each.
  void write_run(const std::string& name, int64_t steps, int64_t interval) {
    write_file_atomic(toml(name),
                      fmt::format("[job]\ndump_folder = \"{}\"\n[model]\ndim = 64\nn_layers = 2\n[training]\n"
                                  "seq_len = 64\nlocal_batch_size = 4\nsteps = {}\nthreads = 2\n[parallelism]\n"
                                  "data_parallel_shard_degree = 2\n[checkpoint]\ninterval = {}\n"
                                  "keep_latest_k = 2\n[data]\npath = \"data\"\n",
                                  name, steps, interval));
  }
  Path toml(const std::string& name) const { return scratch / (name + ".toml"); }
  Path folder(const std::string& name) const { return scratch / name; }

  // Starts the first job of a run and returns its number.
  std::string submit(const std::string& name, const std::string& options = {}) {
    const bool own = options.find("--cluster") != std::string::npos;
    const std::string cluster = own ? "" : "--cluster " + toml("cluster").string();
    const CommandResult result = run_hearth(fmt::format("submit {} {} {}", toml(name).string(), cluster, options));
    EXPECT_EQ(result.exit_code, 0) << result.output;
    return newest_job(read_starts(folder(name)));
  }
  RunState state(const std::string& name) { return run_status(folder(name)).state; }
  bool is_at(const std::string& name, int64_t step) {
    const auto records = metrics::read_metrics(folder(name) / "metrics.jsonl");
    return !records.empty() && records.back().step >= step;
  }
  bool has_checkpoint(const std::string& name) { return !checkpoint::list_steps(folder(name) / "checkpoints").empty(); }
  // What the jobs of a run printed.
  std::string output(const std::string& name) {
    std::string text;
    for (const std::string& file : list_folder(folder(name) / "logs"))
      if (file.starts_with("job-")) text += read_file(folder(name) / "logs" / file);
    return text + "\n" + read_file(starts_file(folder(name)));
  }
  std::vector<std::string> reasons(const std::string& name) {
    std::vector<std::string> all;
    for (const StartEvent& e : read_starts(folder(name)))
      if (e.name == "end") all.push_back(e.why);
    return all;
  }

  // Losses of all steps, and every byte of the last checkpoint, by its checksums.
  void expect_same_run(const std::string& name, const std::string& undisturbed) {
    const auto got = metrics::read_metrics(folder(name) / "metrics.jsonl");
    const auto want = metrics::read_metrics(folder(undisturbed) / "metrics.jsonl");
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i].loss, want[i].loss) << "step " << want[i].step;
    const auto items = [this](const std::string& run) {
      const Path checkpoints = folder(run) / "checkpoints";
      const Path file =
          checkpoints / fmt::format("step-{:08}", checkpoint::list_steps(checkpoints).back()) / "hearth.json";
      return checkpoint::parse_manifest(read_file(file), file).items;
    };
    const auto mine = items(name), theirs = items(undisturbed);
    ASSERT_EQ(mine.size(), theirs.size());
    for (size_t i = 0; i < mine.size(); ++i) {
      EXPECT_EQ(mine[i].name, theirs[i].name);
      EXPECT_EQ(mine[i].checksum, theirs[i].checksum) << mine[i].name;
    }
  }

  test::ScratchFolder scratch;
};

constexpr int64_t kSteps = 1500;
constexpr int64_t kInterval = 100;

// The run that the others are compared with, in one piece.
class ComparedRuns : public Runs {
 protected:
  void train_undisturbed(int64_t steps = kSteps) {
    write_run("undisturbed", steps, kInterval);
    const CommandResult result = run_hearth("train " + toml("undisturbed").string());
    ASSERT_EQ(result.exit_code, 0) << result.output;
    EXPECT_EQ(state("undisturbed"), RunState::kDone);
  }
  // SIGKILL of the newest process that trains this run.
  void kill_a_rank(const std::string& name) {
    const CommandResult found =
        test::run_command(fmt::format("pgrep --newest --full '[h]earth-train train {}'", toml(name).string()));
    ASSERT_EQ(found.exit_code, 0) << found.output;
    ASSERT_EQ(::kill(std::stoi(found.output), SIGKILL), 0);
  }
};

class SlurmRuns : public ComparedRuns {
 protected:
  void SetUp() override {
    if (const std::string why = Cluster::why_not(); !why.empty()) GTEST_SKIP() << why;
    cluster.emplace();
  }
  std::optional<Cluster> cluster;
};

TEST_F(SlurmRuns, GoOnThroughTheSignalOfATimeLimitToTheBitsOfTheUndisturbedRun) {
  train_undisturbed();
  write_run("limited", kSteps, kInterval);
  const std::string job = submit("limited");
  for (const size_t ends : {0u, 1u}) {
    ASSERT_TRUE(comes_true([&] { return is_at("limited", ends == 0 ? 150 : 750); })) << output("limited");
    test::run_command("scancel --batch --signal=USR2 " + job);
    ASSERT_TRUE(comes_true([&] { return reasons("limited").size() > ends; })) << output("limited");
  }
  ASSERT_TRUE(comes_true([&] { return state("limited") == RunState::kDone; })) << output("limited");
  EXPECT_THAT(reasons("limited"),
              testing::ElementsAre("the time limit came", "the time limit came", "the training is complete"));
  EXPECT_EQ(newest_job(read_starts(folder("limited"))), job);  // the same job, requeued
  expect_same_run("limited", "undisturbed");
}

// Slurm sends the signal up to half a minute early, and here ends a job after a minute.
TEST_F(SlurmRuns, GoOnThroughRealTimeLimitsInNewJobs) {
  write_file_atomic(toml("cluster"), read_file(toml("cluster")) + "[start]\ncommands = [\"export LATER=yes\"]\n");
  std::string text = read_file(toml("cluster"));
  text.insert(text.find("signal_lead"), "time_limit = \"1\"\nrequeue = false\n");
  write_file_atomic(toml("cluster"), text);
  write_run("limited", 1'000'000, 500);
  const std::string first = submit("limited");
  ASSERT_TRUE(comes_true([&] {
    return newest_job(read_starts(folder("limited"))) != first && reasons("limited").size() == 1;
  })) << output("limited");
  EXPECT_THAT(reasons("limited"), testing::ElementsAre("the time limit came"));
  const StartEvent end = read_starts(folder("limited")).at(2);
  EXPECT_EQ(end.code, 75) << output("limited");
  EXPECT_GT(end.step, 0);
  ASSERT_TRUE(comes_true([&] { return is_at("limited", end.step + 1); })) << output("limited");
  EXPECT_EQ(run_hearth("stop --now " + folder("limited").string()).exit_code, 0);
  ASSERT_TRUE(comes_true([&] { return state("limited") == RunState::kStopped; })) << output("limited");
}

TEST_F(SlurmRuns, GoOnAfterTheDeathOfARankAndOfANode) {
  train_undisturbed();
  write_run("killed", kSteps, kInterval);
  submit("killed");
  ASSERT_TRUE(comes_true([&] { return has_checkpoint("killed"); })) << output("killed");
  kill_a_rank("killed");
  ASSERT_TRUE(comes_true([&] { return reasons("killed").size() == 1; })) << output("killed");
  const auto node = [&] { return run_status(folder("killed")).slurm.value_or(SlurmJob{}).nodes; };
  const std::string first = node();
  ASSERT_THAT(first, AnyOf("node1", "node2"));
  const int64_t step = checkpoint::list_steps(folder("killed") / "checkpoints").back();
  ASSERT_TRUE(comes_true([&] { return checkpoint::list_steps(folder("killed") / "checkpoints").back() > step; }));
  EXPECT_EQ(node(), first);  // the ranks started again in their allocation
  cluster->kill_node(first);
  ASSERT_TRUE(comes_true([&] { return state("killed") == RunState::kDone; })) << output("killed");
  EXPECT_NE(node(), first) << output("killed");
  expect_same_run("killed", "undisturbed");
}

TEST_F(SlurmRuns, ANodeThatIsOffIsNamedBeforeTheTrainingAndLeftOut) {
  std::string text = read_file(toml("cluster"));
  text.replace(text.find("ranks_per_node = 2"), 18, "ranks_per_node = 1");
  // Other work shares these cores.
  write_file_atomic(toml("cluster"), text + "[preflight]\nleast_share = 0.01\n");
  write_run("run", kSteps, kInterval);
  make_folders(folder("run"));
  cluster->make_read_only("node2", folder("run"));
  submit("run", "--preflight");
  ASSERT_TRUE(comes_true([&] { return state("run") == RunState::kStopped; })) << output("run");
  EXPECT_THAT(reasons("run"), testing::ElementsAre(HasSubstr("hearth preflight ended with exit code 4")));
  EXPECT_THAT(output("run"), HasSubstr("files          OFF          node2: cannot create"));
  EXPECT_THAT(output("run"), HasSubstr("hearth submit --exclude node2"));
  EXPECT_FALSE(has_checkpoint("run"));

  text.replace(text.find("ranks_per_node = 1"), 18, "ranks_per_node = 2");
  write_file_atomic(toml("cluster"), text + "[preflight]\nleast_share = 0.01\n");
  submit("run", "--preflight --exclude node2");
  ASSERT_TRUE(comes_true([&] { return state("run") == RunState::kDone; })) << output("run");
  EXPECT_THAT(output("run"), HasSubstr("steps          fine"));
}

TEST_F(SlurmRuns, ACrashLoopIsStopped) {
  // Every start of the ranks is killed.
  const Path program = scratch / "program";
  write_file_atomic(program,
                    fmt::format("#!/bin/sh\n[ $1 = job ] && exec {} \"$@\"\nkill -9 $$\n", test::hearth_binary()));
  std::filesystem::permissions(program, std::filesystem::perms::all);
  write_file_atomic(toml("cluster"),
                    fmt::format("{}[start]\nhearth = \"{}\"\n", read_file(toml("cluster")), program.string()));
  write_run("loop", kSteps, kInterval);
  submit("loop", "--max-restarts 1");
  ASSERT_TRUE(comes_true([&] { return state("loop") == RunState::kStopped; })) << output("loop");
  ASSERT_EQ(reasons("loop").size(), 2u) << output("loop");
  EXPECT_THAT(reasons("loop").back(), HasSubstr("2 starts in a row made no new checkpoint"));
  EXPECT_EQ(run_status(folder("loop")).slurm.value_or(SlurmJob{}).state, "FAILED");
}

TEST_F(SlurmRuns, AreQueuedRefusedTwiceCancelledStoppedAndGoOn) {
  train_undisturbed();
  const std::string blocker =
      test::run_command("sbatch --parsable -N2 --exclusive --output=/dev/null --wrap='sleep 900'").output;
  write_run("run", kSteps, kInterval);
  const std::string first = submit("run");
  EXPECT_EQ(state("run"), RunState::kQueued);
  const CommandResult second =
      run_hearth(fmt::format("submit {} --cluster {}", toml("run").string(), toml("cluster").string()));
  EXPECT_EQ(second.exit_code, 2);
  EXPECT_THAT(second.output, HasSubstr("is queued already: job " + first));
  test::run_command("scancel " + first);
  ASSERT_TRUE(comes_true([&] { return state("run") == RunState::kStopped; }));
  EXPECT_EQ(run_status(folder("run")).why, "Slurm says CANCELLED of job " + first);
  submit("run");
  EXPECT_EQ(run_hearth("stop " + toml("run").string()).exit_code, 0);
  ASSERT_TRUE(comes_true([&] { return state("run") == RunState::kStopped; }));
  test::run_command("scancel " + blocker);

  submit("run");
  ASSERT_TRUE(comes_true([&] { return is_at("run", 150); })) << output("run");
  EXPECT_EQ(run_hearth("stop " + toml("run").string()).exit_code, 0);
  ASSERT_TRUE(comes_true([&] { return state("run") == RunState::kStopped; })) << output("run");
  EXPECT_THAT(reasons("run"), testing::ElementsAre("`hearth stop` asked for it"));
  EXPECT_NE(checkpoint::list_steps(folder("run") / "checkpoints").back() % kInterval, 0);  // it saved
  submit("run");
  ASSERT_TRUE(comes_true([&] { return state("run") == RunState::kDone; })) << output("run");
  expect_same_run("run", "undisturbed");
}

TEST_F(ComparedRuns, OfThisHostGoOnAfterAKilledRankAndAStop) {
  train_undisturbed();
  write_run("here", kSteps, kInterval);
  const std::string job = submit("here", "--cluster local");
  EXPECT_THAT(job, testing::StartsWith("local-"));
  ASSERT_TRUE(comes_true([&] { return has_checkpoint("here"); })) << output("here");
  EXPECT_EQ(state("here"), RunState::kRunning);
  kill_a_rank("here");
  ASSERT_TRUE(comes_true([&] { return reasons("here").size() == 1; })) << output("here");
  ASSERT_TRUE(comes_true([&] { return is_at("here", 400); })) << output("here");
  EXPECT_EQ(run_hearth("stop " + toml("here").string()).exit_code, 0);
  ASSERT_TRUE(comes_true([&] { return state("here") == RunState::kStopped; })) << output("here");
  EXPECT_EQ(reasons("here").back(), "`hearth stop` asked for it");
  submit("here", "--cluster local");
  ASSERT_TRUE(comes_true([&] { return is_at("here", 600); })) << output("here");
  EXPECT_EQ(run_hearth("stop --now " + toml("here").string()).exit_code, 0);
  ASSERT_TRUE(comes_true([&] { return state("here") == RunState::kStopped; })) << output("here");
  submit("here", "--cluster local");
  ASSERT_TRUE(comes_true([&] { return state("here") == RunState::kDone; })) << output("here");
  expect_same_run("here", "undisturbed");
}

TEST_F(Runs, ThatAreRefusedStopAtOnce) {
  write_run("refused", 100, 50);
  submit("refused", "--cluster local --set data.path=data --set memory.limit=1MiB");
  ASSERT_TRUE(comes_true([&] { return state("refused") == RunState::kStopped; })) << output("refused");
  EXPECT_THAT(reasons("refused"), testing::ElementsAre(HasSubstr("exit code 2")));
}

}  // namespace
}  // namespace hearth::cluster
