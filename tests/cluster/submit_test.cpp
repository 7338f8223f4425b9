// SPDX-License-Identifier: Apache-2.0
// `hearth submit`, status, stop and logs as a user types them, with programs that stand for Slurm's.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/inotify.h>

#include <chrono>
#include <thread>

#include "base/text.h"
#include "cluster/starts.h"
#include "submits.h"

namespace hearth::cluster {
namespace {

using test::CommandResult;
using test::run_hearth;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

TEST_F(Submits, ADryRunPrintsTheScriptAndWritesNothing) {
  const CommandResult result = submit(
      "--cluster slurm_cpu --nodes 2 --account abc --time-limit 1:00:00 --exclude node[3-4] --preflight --dry-run");
  EXPECT_EQ(result.exit_code, 0);
  for (const char* line : {"#SBATCH --nodes=2\n", "#SBATCH --ntasks-per-node=4\n", "#SBATCH --account=abc\n",
                           "#SBATCH --time=1:00:00\n", "#SBATCH --exclude='node[3-4]'\n", "hearth preflight ",
                           " --cluster slurm_cpu --bad-nodes \"$bad_nodes\"; }", "--mpi=pmix"})
    EXPECT_THAT(result.output, HasSubstr(line));
  EXPECT_FALSE(path_exists(run));
}

TEST_F(Submits, OneRankIsOneWhereTheRunSaysSo) {
  const CommandResult one = submit("--cluster slurm_cpu --set parallelism.data_parallel_shard_degree=1 --dry-run");
  EXPECT_EQ(one.exit_code, 0) << one.output;
  EXPECT_THAT(one.output, HasSubstr("#SBATCH --nodes=1\n#SBATCH --ntasks-per-node=1\n"));
  const CommandResult as_many_as_started = submit("--cluster slurm_cpu --set training.global_batch_size=-1 --dry-run");
  EXPECT_THAT(as_many_as_started.output, HasSubstr("#SBATCH --ntasks-per-node=4\n"));
}

TEST_F(Submits, AJobIsRecordedAndASecondIsRefused) {
  program("sbatch", "echo \"12;main\"; echo \"$@\" >> " + (scratch / "sbatch.log").string());
  program("squeue", "echo 'PENDING|Resources||1:00'");
  const CommandResult first = submit();
  ASSERT_EQ(first.exit_code, 0) << first.output;
  EXPECT_THAT(first.output, HasSubstr("job 12: "));
  EXPECT_EQ(read_file(scratch / "sbatch.log"), "--parsable " + (run / "job.sh").string() + "\n");
  ASSERT_THAT(read_starts(run), SizeIs(1));
  EXPECT_EQ(read_starts(run).front().ranks, 4);
  EXPECT_EQ(read_starts(run).front().cluster, "slurm_cpu");

  const CommandResult second = submit();
  EXPECT_EQ(second.exit_code, 2);
  EXPECT_THAT(second.output, HasSubstr("is queued already: job 12"));
  EXPECT_THAT(read_starts(run), SizeIs(1));

  EXPECT_THAT(hearth("status " + run.string()).output, HasSubstr("queued (Resources)"));
  EXPECT_THAT(hearth("status --all " + scratch.path().string()).output, HasSubstr("out: queued"));
  EXPECT_THAT(hearth("status --json " + toml.string()).output, HasSubstr("\"state\":\"queued\",\"why\":\"Resources\""));

  program("squeue", "echo 'PENDING|BadConstraints||1:00'");
  EXPECT_THAT(hearth("status " + run.string()).output,
              HasSubstr("queued (BadConstraints: too few nodes are left for it; hearth stop it, then submit it anew)"));
  append_start(run, {.name = "submit", .job = "12", .cluster = "slurm_cpu", .nodes = 3, .ranks = 12});
  EXPECT_THAT(hearth("status " + run.string()).output,
              HasSubstr("scontrol update JobId=12 NumNodes=N NumTasks=M, where M is 4 times N; else hearth stop it"));

  program("scancel", "echo \"$@\" > " + (scratch / "scancel.log").string());
  EXPECT_EQ(hearth("stop " + run.string()).exit_code, 0);
  EXPECT_EQ(read_file(scratch / "scancel.log"), "12\n");  // it waits: there is nothing to save
  program("squeue", "echo 'RUNNING|None|node1|1:00'");
  EXPECT_EQ(hearth("stop " + run.string()).exit_code, 0);
  EXPECT_EQ(read_file(scratch / "scancel.log"), "--batch --signal=USR2 12\n");
  EXPECT_EQ(hearth("stop --now " + run.string()).exit_code, 0);
  EXPECT_EQ(read_file(scratch / "scancel.log"), "12\n");

  program("squeue", "echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1");
  program("sacct", "echo 'CANCELLED by 0|None|None'");
  EXPECT_THAT(hearth("status " + run.string()).output, HasSubstr("stopped (`hearth stop` asked for it)"));
  const CommandResult again = hearth("stop " + run.string());
  EXPECT_EQ(again.exit_code, 2);
  EXPECT_THAT(again.output, HasSubstr("runs or waits"));
  EXPECT_EQ(submit().exit_code, 0);
}

TEST_F(Submits, AMissingOrRefusingSbatchIsOneError) {
  program("hearth-train", "");
  CommandResult result =
      run_hearth("submit --cluster slurm_cpu " + toml.string(), "PATH=" + (scratch / "bin").string());
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.output, HasSubstr("error: there is no sbatch on this host"));
  program("sbatch", "echo 'sbatch: error: Invalid account' >&2; exit 1");
  result = submit();
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.output, HasSubstr("error: sbatch refused the job\n  why: sbatch: error: Invalid account\n"));
  EXPECT_THAT(read_starts(run), SizeIs(0));
  program("sbatch", "echo 'sbatch: error: Unable to contact slurm controller (connect failure)' >&2; exit 1");
  result = submit();
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_THAT(result.output, HasSubstr("error: Slurm's controller does not answer\n"));
  program("sbatch", "echo welcome");
  result = submit();
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_THAT(result.output, HasSubstr("did not say the job's number, but \"welcome\""));
}

// The controller restarts, or is too busy: the job may wait or run.
TEST_F(Submits, WithoutAnAnswerOfSlurmNothingIsStartedTwice) {
  program("sbatch", "echo 12");
  program("squeue", "echo 'PENDING|Resources||1:00'");
  ASSERT_EQ(submit().exit_code, 0);
  program("squeue", "echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1");
  program("sacct", "echo 'Slurm accounting storage is disabled' >&2; exit 1");
  const std::string state = "unknown (squeue says: slurm_load_jobs error: Unable to contact slurm controller)";
  EXPECT_THAT(hearth("status " + run.string()).output, HasSubstr(state));
  const CommandResult second = submit(), stop = hearth("stop " + run.string());
  EXPECT_EQ(second.exit_code, 4);
  EXPECT_THAT(second.output, HasSubstr("it is not known whether job 12 of the run"));
  EXPECT_THAT(read_starts(run), SizeIs(1));
  EXPECT_EQ(stop.exit_code, 4);
  EXPECT_THAT(stop.output, HasSubstr("it is not known whether " + run.string() + " runs"));
  // The accounting knows, or the job said that nothing goes on.
  program("sacct", "echo 'CANCELLED by 0|None|None'");
  EXPECT_THAT(hearth("status " + run.string()).output, HasSubstr("stopped (Slurm says CANCELLED of job 12)"));
  program("sacct", "exit 1");
  append_start(run, {.name = "end", .job = "12", .next = "requeue", .why = "the time limit came"});
  EXPECT_THAT(hearth("status " + run.string()).output, HasSubstr(state));
  append_start(run, {.name = "end", .job = "12", .next = "stop", .why = "damaged data"});
  EXPECT_THAT(hearth("status " + run.string()).output, HasSubstr("stopped (damaged data)"));
  EXPECT_EQ(submit().exit_code, 0);
}

// Its script could not write down why.
TEST_F(Submits, AJobThatEndedWithoutAReasonHasSlurmsAndTheFirstErrorOfItsLog) {
  program("sbatch", "echo 12");
  program("squeue", "echo 'PENDING|Resources||1:00'");
  ASSERT_EQ(submit().exit_code, 0);
  append_start(run, {.name = "start", .job = "12"});
  program("squeue", "echo 'FAILED|NonZeroExitCode|node1|1:00'");
  EXPECT_THAT(hearth("status " + run.string()).output,
              HasSubstr("stopped (Slurm says FAILED (NonZeroExitCode) of job 12)"));
  write_file_atomic(run / "logs" / "job-12.log",
                    "error: old (start 0.1)\nhearth: job 12 begins start 1.1 at step 150\n"
                    "error: cannot create folder a (start 1.1)\n  why: Read-only file system\nerror: later\n");
  EXPECT_THAT(hearth("status " + run.string()).output,
              HasSubstr("of job 12; its log's first error: cannot create folder a: Read-only file system)"));
}

// As on a disk without room for a line more.
TEST_F(Submits, AJobThatCannotBeRecordedIsCancelled) {
  make_folders(run);
  std::filesystem::create_symlink(scratch / "nowhere" / "starts.jsonl", starts_file(run));
  program("sbatch", "echo 12");
  program("scancel", "echo \"$@\" > " + (scratch / "scancel.log").string());
  const CommandResult result = submit();
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.output, HasSubstr("cannot open " + starts_file(run).string()));
  EXPECT_EQ(read_file(scratch / "scancel.log"), "12\n");
}

TEST_F(Submits, WrongWordsAreOneErrorEach) {
  const auto expect = [this](const std::string& options, const std::string& text) {
    const CommandResult result = submit(options);
    EXPECT_EQ(result.exit_code, 2) << options;
    EXPECT_THAT(result.output, HasSubstr(text)) << options;
    EXPECT_FALSE(path_exists(run)) << options;
  };
  program("sbatch", "echo 12");
  expect("", "--cluster is not given, and this host has sbatch");
  expect("--cluster slurm_gpu", "there is no cluster file \"slurm_gpu\"");
  expect("--cluster no/such.toml", "no/such.toml");
  expect("--cluster local --account x", "--account was given, and the cluster file local has no scheduler");
  expect("--cluster local --nodes 2", "starts ranks on one node");
  expect("--cluster slurm_cpu --time-limit soon", "--time-limit soon is not a time");
  expect("--cluster slurm_cpu --time-limit 5", "--time-limit 5 is too short");
  expect("--cluster slurm_cpu --set parallelism.data_parallel_shard_degree=6", "6 ranks, which do not fill nodes of 4");
  expect("--cluster slurm_cpu --set training.stesp=1", "did you mean training.steps?");
  expect("--cluster slurm_cpu --set data.path=nowhere", "nowhere");
  expect("--cluster slurm_cpu --set job.dump_folder=run.toml/out", "run.toml\n  why: Not a directory");
}

TEST_F(Submits, NodesAreExcludedInASlurmJobOnly) {
  const CommandResult result = hearth("preflight --exclude-bad");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.output, HasSubstr("error: --exclude-bad was given outside a Slurm job"));
}

TEST_F(Submits, RanksAreThoseOfTheOptionsTheRunFileOrTheClusterFile) {
  const auto nodes_and_ranks = [this](const std::string& options) {
    const std::string text = submit(options + " --dry-run").output;
    const auto value = [&text](const std::string& name) {
      const size_t at = text.find(name);
      return at == std::string::npos ? "" : text.substr(at + name.size(), text.find('\n', at) - at - name.size());
    };
    return value("--nodes=") + "x" + value("--ntasks-per-node=");
  };
  const std::string degree = " --set parallelism.data_parallel_shard_degree=";
  EXPECT_EQ(nodes_and_ranks("--cluster slurm_cpu"), "1x4");
  EXPECT_EQ(nodes_and_ranks("--cluster slurm_cpu --nodes 3"), "3x4");
  EXPECT_EQ(nodes_and_ranks("--cluster slurm_cpu" + degree + "8"), "2x4");
  EXPECT_EQ(nodes_and_ranks("--cluster slurm_cpu" + degree + "2"), "1x2");
  EXPECT_THAT(submit("--cluster slurm_cpu --nodes 3" + degree + "8").output, HasSubstr("12"));
}

TEST_F(Submits, StatusOfNothingSaysSo) {
  make_folders(run);
  const CommandResult nothing = hearth("status " + run.string());
  EXPECT_EQ(nothing.exit_code, 0);
  EXPECT_THAT(nothing.output, HasSubstr("state        nothing\n"));
  EXPECT_EQ(hearth("status " + (scratch / "absent").string()).exit_code, 2);
  EXPECT_EQ(hearth("status").exit_code, 2);
  EXPECT_EQ(hearth("status --all " + (scratch / "absent").string()).exit_code, 2);
  EXPECT_EQ(hearth("logs " + run.string()).exit_code, 2);
  EXPECT_EQ(hearth("logs --rank 3 " + run.string()).exit_code, 2);
  EXPECT_EQ(hearth("stop " + run.string()).exit_code, 2);
}

TEST_F(Submits, AFinishedRunIsNotQueued) {
  program("sbatch", "echo 12");
  const auto finish = [this](int64_t step) {
    make_folders(run / "checkpoints" / fmt::format("step-{:08}", step));
    write_file_atomic(run / "done.json", fmt::format("{{\"step\": {}}}\n", step));
  };
  finish(10);
  const CommandResult done = submit();
  EXPECT_EQ(done.exit_code, 0) << done.output;
  EXPECT_THAT(done.output, HasSubstr("nothing to do: " + run.string() + " has all 10 steps\n"));
  EXPECT_THAT(read_starts(run), SizeIs(0));
  // More steps, a missing checkpoint, or an export that is missing are something to do.
  const std::string batch = "--cluster slurm_cpu --set training.global_batch_size=-1 ";
  EXPECT_THAT(submit(batch + "--set training.steps=11").output, HasSubstr("job 12: "));
  std::filesystem::remove(starts_file(run));
  EXPECT_THAT(submit(batch + "--set checkpoint.last_save_in_hf=true --set checkpoint.last_save_model_only=true").output,
              HasSubstr("job 12: "));
  std::filesystem::remove(starts_file(run));
  // Epochs: as many as the last time, or more.
  const std::string epochs = batch + "--set training.steps=0 --set training.epochs=";
  write_file_atomic(run / "config.toml",
                    fmt::format("[training]\nepochs = 2.0\n[data]\npath = \"{}\"\n", (scratch / "data").string()));
  EXPECT_THAT(submit(epochs + "2").output, HasSubstr("nothing to do"));
  EXPECT_THAT(submit(epochs + "3").output, HasSubstr("job 12: "));
  std::filesystem::remove(starts_file(run));
  std::filesystem::remove_all(run / "checkpoints");
  EXPECT_THAT(submit().output, HasSubstr("job 12: "));
}

TEST_F(Submits, LogsBeginWithTheLastLines) {
  make_folders(run / "logs");
  std::string text;
  for (int i = 1; i <= 100; ++i) text += fmt::format("line {}\n", i);
  write_file_atomic(run / "logs" / "job-12.log", text);
  write_file_atomic(run / "logs" / "rank-00001.log", "of rank 1\n");
  const std::string all = hearth("logs " + run.string()).output;
  EXPECT_THAT(all, HasSubstr("\nline 61\n"));
  EXPECT_THAT(all, Not(HasSubstr("line 60\n")));
  EXPECT_THAT(hearth("logs --lines 1 " + run.string()).output, testing::EndsWith("job-12.log\nline 100\n"));
  EXPECT_THAT(hearth("logs --rank 1 " + run.string()).output, HasSubstr("of rank 1\n"));
}

// What the job's script calls.
TEST_F(Submits, JobsThatAreOutdatedOrLoopDoNotStart) {
  make_folders(run);
  const auto job = [this](const std::string& words) {
    return hearth("job " + words + " --checkpoints " + (run / "checkpoints").string() + " --max-restarts 2");
  };
  for (int i = 0; i < 3; ++i) EXPECT_EQ(job("before " + run.string() + " --job 1").exit_code, 0);
  EXPECT_EQ(job("current " + run.string() + " --job 1").exit_code, 0);
  const CommandResult fourth = job("before " + run.string() + " --job 1");
  EXPECT_EQ(fourth.exit_code, 75);
  EXPECT_THAT(fourth.output, HasSubstr("3 starts in a row made no new checkpoint"));
  EXPECT_THAT(job("after " + run.string() + " --job 1 --code 137").output, testing::EndsWith("\nstop 0\n"));
  EXPECT_EQ(hearth("job queued " + run.string() + " --job 1 --next-job 2").exit_code, 0);
  const CommandResult outdated = job("before " + run.string() + " --job 1");
  EXPECT_EQ(outdated.exit_code, 75);
  EXPECT_THAT(outdated.output, HasSubstr("job 2 goes on with the run"));
  EXPECT_EQ(job("current " + run.string() + " --job 1").exit_code, 75);
  append_start(run, {.name = "start", .job = "2", .requeues = 1});
  EXPECT_EQ(job("current " + run.string() + " --job 2 --requeues 1").exit_code, 0);
  EXPECT_EQ(job("current " + run.string() + " --job 2").exit_code, 75);  // of before the requeue
}

// What the job's script asks on each node after a failure.
TEST_F(Submits, ANodeSaysWhetherItCanRunTheJob) {
  HEARTH_NEEDS_TRAINER();
  make_folders(run);
  const auto node = [this](const std::string& options = {}) {
    return run_hearth(fmt::format("job node {} --job 1 --run-file {} {}", run.string(), toml.string(), options),
                      "SLURMD_NODENAME=node7");
  };
  const CommandResult fine = node();
  EXPECT_EQ(fine.exit_code, 0);
  // What all nodes have to have in common.
  const std::string build = "found node7 " + test::run_command(test::hearth_binary() + "-train --version").output;
  const std::string data = fmt::format("found node7 {} with the identity {}, tokenizer ", (scratch / "data").string(),
                                       data::read_manifest(scratch / "data").identity);
  EXPECT_THAT(build, HasSubstr("commit "));
  EXPECT_THAT(fine.output, testing::StartsWith(build + data));
  EXPECT_THAT(fine.output, testing::EndsWith("\nfine node7\n"));
  EXPECT_THAT(list_folder(run), SizeIs(0));
  // Is it the folder that the script sees? Not where the script's file is missing.
  EXPECT_THAT(node("--token .look").output, testing::EndsWith("\nfolder node7 other unknown\nfine node7\n"));
  write_file_atomic(run / ".look", "");
  append_start(run, {.name = "submit", .job = "1"});
  EXPECT_THAT(node("--token .look").output, testing::EndsWith("\nfolder node7 same known\nfine node7\n"));
  EXPECT_EQ(node("--set training.stesp=1").output, build + "fine node7\n");  // is wrong on every node
  write_file_atomic(scratch / "weights.f32", "1234");
  write_file_atomic(toml, read_file(toml) + "[[validation.set]]\nname = \"a\"\npath = \"data\"\n");
  const std::string more = node("--set training.token_weights=weights.f32").output;
  EXPECT_NE(more.find(data, more.find(data) + 1), std::string::npos) << more;
  EXPECT_THAT(more, HasSubstr("found node7 weights.f32 with the hash "));
  EXPECT_THAT(node("--set data.path=nowhere").output, HasSubstr("hearth: node node7: "));
  EXPECT_THAT(node("--set data.path=nowhere").output, testing::EndsWith("\noff node7\n"));
  std::filesystem::remove_all(run);  // is not mounted
  EXPECT_THAT(node().output, HasSubstr("No such file or directory\noff node7\n"));
  std::filesystem::remove(toml);
  EXPECT_THAT(node().output, HasSubstr("run.toml: No such file or directory\noff node7\n"));
}

// A scheduler may start the job before `hearth submit` has recorded it.
TEST_F(Submits, AJobWaitsUntilItIsRecorded) {
  make_folders(run);
  append_start(run, {.name = "submit", .job = "1"});
  append_start(run, {.name = "start", .job = "1"});
  append_start(run, {.name = "end", .job = "1", .next = "stop"});
  auto lock = FileLock::try_lock(submit_lock(run));
  const int opened = ::inotify_init1(IN_CLOEXEC);
  ASSERT_GE(::inotify_add_watch(opened, submit_lock(run).c_str(), IN_OPEN), 0);
  std::thread submitting([this, &lock, opened] {
    pollfd job_tries{opened, POLLIN, 0};
    EXPECT_EQ(::poll(&job_tries, 1, /*milliseconds=*/300'000), 1) << "the job does not look at the lock";
    append_start(run, {.name = "submit", .job = "2"});
    lock.reset();
  });
  const CommandResult second = hearth("job before " + run.string() + " --job 2");
  submitting.join();
  ::close(opened);
  EXPECT_EQ(second.exit_code, 0) << second.output;
  EXPECT_EQ(read_starts(run).back().job, "2");
}

}  // namespace
}  // namespace hearth::cluster
