// SPDX-License-Identifier: Apache-2.0
// Ranks as processes, as `hearth train --ranks` starts them: the numbers of threads, and no failure that goes unnamed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/retain.h"
#include "report/flight_verdict.h"
#include "run_process.h"
#include "runfolder/lease.h"
#include "trace/flight.h"

namespace hearth::train {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

constexpr int64_t kForever = 1'000'000;

int times(const std::string& text, const std::string& part) {
  int count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

struct Processes : TinyData {
  config::RunConfig of_ranks(const std::string& name, int64_t ranks) const {
    config::RunConfig c = tiny_config(scratch);
    c.job.dump_folder = name;
    c.training.threads = ranks;
    c.parallelism.data_parallel_shard_degree = ranks;
    return c;
  }
  std::vector<std::string> words(const config::RunConfig& c) const { return {"train", write_run_file(c).string()}; }
  // Starts a run of `ranks` that does not end by itself, and waits for its third step.
  std::unique_ptr<RunProcess> started(config::RunConfig& c) const {
    c.training.steps = kForever;
    auto process = std::make_unique<RunProcess>(words(c), log);
    EXPECT_TRUE(wait_until(*process, [&] { return steps_logged(c) >= 3; })) << read_file(log);
    EXPECT_EQ(std::ssize(process->ranks()), c.parallelism.data_parallel_shard_degree);
    return process;
  }
  // Starts a run whose ranks give up one that hangs after a second, and waits for `moment`. A busy machine's ranks may
  // be as late, so that the run ends before: then it starts once more, with a longer time-out. The time-out of the
  // start goes with it where the test makes it short.
  template <typename Moment>
  std::unique_ptr<RunProcess> started_with_timeout(config::RunConfig& c, Moment moment,
                                                   const std::vector<std::string>& mpirun = {}) const {
    c.training.steps = kForever;
    for (c.comm.train_timeout_seconds = 1;; c.comm.train_timeout_seconds *= 4) {
      if (c.comm.init_timeout_seconds < 100) c.comm.init_timeout_seconds = c.comm.train_timeout_seconds;
      std::filesystem::remove(log);
      remove_tree(c.run_folder());
      std::vector<std::string> line = mpirun, of_run = words(c);
      if (!mpirun.empty()) line.push_back(train_binary());
      line.insert(line.end(), of_run.begin(), of_run.end());
      auto process =
          std::make_unique<RunProcess>(line, log, "", mpirun.empty() ? train_binary() : "/usr/bin/mpirun.openmpi");
      if (wait_until(*process, moment) && process->running()) return process;
      if (c.comm.train_timeout_seconds > 60) throw std::runtime_error("the run ends by itself: " + read_file(log));
    }
  }
  Path log = scratch / "log";
};

TEST_F(Processes, TrainToTheBitsOfThreads) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    config::RunConfig threads = of_ranks(fmt::format("threads-{}", dtype_name(dtype)), 2);
    threads.validation.freq = 5;
    threads.training.mixed_precision_param = dtype;
    config::RunConfig processes = threads;
    processes.job.dump_folder = fmt::format("processes-{}", dtype_name(dtype));
    const auto expected = train(threads);
    RunProcess process(words(processes), log);
    ASSERT_EQ(process.wait(), 0) << read_file(log);
    expect_same_training(metrics::read_metrics(processes.run_folder() / "metrics.jsonl"), expected);
    EXPECT_EQ(tensors_of(step_of(processes, 12)), tensors_of(step_of(threads, 12)));
    EXPECT_TRUE(path_exists(processes.run_folder() / "logs" / "rank-00001.log"));
  }
}

TEST_F(Processes, TrainToTheBitsOfThreadsThroughMpi) {
  const Path library = Path(test::hearth_binary()).parent_path() / "libhearth_mpi.so";
  if (!path_exists(library) || !path_exists("/usr/bin/mpirun.openmpi")) GTEST_SKIP() << "built without Open MPI";
  config::RunConfig threads = of_ranks("threads", 4);
  threads.parallelism = {2, 2, 3};
  const auto expected = train(threads);
  config::RunConfig c = threads;
  c.job.dump_folder = "mpi";
  c.comm.backend = config::CommBackend::kMpi;
  // In the asan preset MPI's own libraries leave memory behind at their end.
  std::vector<std::string> mpirun = {
      "--allow-run-as-root", "--oversubscribe", "-x", "ASAN_OPTIONS=detect_leaks=0", "-n", "4", train_binary()};
  for (const std::string& word : words(c)) mpirun.push_back(word);
  RunProcess process(mpirun, log, "", "/usr/bin/mpirun.openmpi");
  ASSERT_EQ(process.wait(), 0) << read_file(log);
  expect_same_training(metrics::read_metrics(c.run_folder() / "metrics.jsonl"), expected);
  EXPECT_EQ(tensors_of(step_of(c, 12)), tensors_of(step_of(threads, 12)));
}

// Through what stands for NCCL: with sums in pairs the bits are those of threads, else the sums' order differs.
TEST_F(Processes, ThroughNcclTrainToTheSameBitsWhereTheOrderOfSumsIsFixed) {
  config::RunConfig threads = of_ranks("threads", 4);
  threads.parallelism = {.data_parallel_shard_degree = 2, .zero_stage = 3, .tensor_parallel_degree = 2};
  threads.training.threads = 4;
  for (const bool ordered : {true, false}) {
    threads.job.dump_folder = ordered ? "threads-ordered" : "threads";
    threads.numerics.reproducible = ordered;
    const auto expected = train(threads);
    config::RunConfig c = threads;
    c.job.dump_folder = ordered ? "nccl-ordered" : "nccl";
    c.comm.backend = config::CommBackend::kNccl;
    c.comm.nccl_library = (Path(HEARTH_BUILD_DIR) / "tests" / "libhearth_fake_nccl.so").string();
    RunProcess process(words(c), log);
    ASSERT_EQ(process.wait(), 0) << read_file(log);
    const auto records = metrics::read_metrics(c.run_folder() / "metrics.jsonl");
    if (ordered) {
      expect_same_training(records, expected);
      EXPECT_EQ(tensors_of(step_of(c, 12)), tensors_of(step_of(threads, 12)));
    } else {
      ASSERT_EQ(records.size(), expected.size());
      for (size_t i = 0; i < records.size(); ++i) EXPECT_NEAR(*records[i].loss / *expected[i].loss, 1, 1e-4);
    }
  }
}

// One rank, as on one GPU.
TEST_F(Processes, OneRankTrainsThroughNcclToItsBits) {
  config::RunConfig alone = of_ranks("alone", 1);
  alone.parallelism.zero_stage = 3;
  const auto expected = train(alone);
  config::RunConfig c = alone;
  c.job.dump_folder = "nccl";
  c.comm.backend = config::CommBackend::kNccl;
  c.comm.nccl_library = (Path(HEARTH_BUILD_DIR) / "tests" / "libhearth_fake_nccl.so").string();
  RunProcess process(words(c), log);
  ASSERT_EQ(process.wait(), 0) << read_file(log);
  expect_same_training(metrics::read_metrics(c.run_folder() / "metrics.jsonl"), expected);
}

// What `hearth inspect` says of a rank that was stopped for good.
TEST_F(Processes, ThatHangAreNamedByTheRecordsOfTheirCalls) {
  config::RunConfig c = of_ranks("hung", 4);
  const auto process = started_with_timeout(c, [&] { return steps_logged(c) >= 3; });
  ::kill(process->ranks()[1], SIGSTOP);
  EXPECT_EQ(process->wait(), static_cast<int>(ExitCode::kHardware));
  const std::string flight = (c.run_folder() / "flight").string();
  EXPECT_THAT(read_file(log),
              HasSubstr(fmt::format("\n  calls: `hearth inspect {}` shows the last ones of each rank\n", flight)));
  const report::FlightVerdict verdict = report::flight_verdict(trace::read_flights(flight));
  // A rank that is stopped within a call looks as those that wait for it there.
  const bool is_clear = verdict.text.find("which all its ranks have begun") == std::string::npos;
  EXPECT_EQ(verdict.rank.value_or(1), 1) << verdict.text;
  EXPECT_EQ(verdict.rank.has_value(), is_clear) << verdict.text;
}

// As if a host that was cut off came back after the training was started elsewhere.
TEST_F(Processes, ThatWereReplacedByAnotherStartWriteNoCheckpoint) {
  config::RunConfig c = of_ranks("replaced", 2);
  c.checkpoint.interval = 1000;
  const auto process = started(c);
  const runfolder::Lease other = runfolder::Lease::take(c.run_folder());
  ::kill(process->pid(), SIGTERM);  // asks for a checkpoint
  EXPECT_EQ(process->wait(), static_cast<int>(ExitCode::kHardware)) << read_file(log);
  EXPECT_THAT(read_file(log), HasSubstr("this training was replaced by another start"));
  EXPECT_TRUE(checkpoint::list_steps(c.checkpoint_folder()).empty());
  other.check();
}

TEST_F(Processes, ThatWereReplacedDoNotStartAgain) {
  config::RunConfig c = of_ranks("replaced", 2);
  c.training.steps = kForever;
  std::vector<std::string> line = words(c);
  line.insert(line.end(), {"--max-restarts", "3"});
  RunProcess process(line, log);
  ASSERT_TRUE(wait_until(process, [&] { return steps_logged(c) >= 3; })) << read_file(log);
  const runfolder::Lease other = runfolder::Lease::take(c.run_folder());
  ::kill(process.ranks()[1], SIGKILL);
  EXPECT_EQ(process.wait(), static_cast<int>(ExitCode::kHardware)) << read_file(log);
  EXPECT_EQ(times(read_file(log), "the ranks start again"), 0) << read_file(log);
  other.check();
}

// With --max-restarts. A rank is killed twice, in different stretches; then every restart fails at once.
TEST_F(Processes, StartAgainByThemselvesAfterAKillAndGoOnToTheSameBits) {
  config::RunConfig whole = of_ranks("whole", 2);
  whole.training.steps = 200;
  whole.checkpoint.interval = 10;
  const auto expected = train(whole);
  config::RunConfig c = whole;
  c.job.dump_folder = "killed";
  std::vector<std::string> line = words(c);
  line.insert(line.end(), {"--max-restarts", "1"});
  RunProcess process(line, log);
  int64_t seen = 0;
  for (const size_t victim : {1u, 0u}) {
    ASSERT_TRUE(wait_until(process, [&] { return steps_logged(c) >= seen + 12 && process.ranks().size() == 2; }))
        << read_file(log);
    seen = steps_logged(c);
    ::kill(process.ranks()[victim], SIGKILL);
    ASSERT_TRUE(wait_until(process, [&] {
      return times(read_file(log), "the ranks start again") == (victim == 1 ? 1 : 2);
    })) << read_file(log);
  }
  ASSERT_EQ(process.wait(), 0) << read_file(log);
  expect_same_training(metrics::read_metrics(c.run_folder() / "metrics.jsonl"), expected);
  EXPECT_EQ(tensors_of(step_of(c, 200)), tensors_of(step_of(whole, 200)));
}

TEST_F(Processes, StartAgainOnlySoOftenWithoutANewCheckpoint) {
  config::RunConfig c = of_ranks("run", 2);
  c.comm.backend = config::CommBackend::kNccl;
  c.comm.nccl_library = "/nowhere/libnccl.so.2";
  std::vector<std::string> line = words(c);
  line.insert(line.end(), {"--max-restarts", "2"});
  RunProcess process(line, log);
  EXPECT_EQ(process.wait(), 4);
  EXPECT_EQ(times(read_file(log), "the ranks start again, from the beginning"), 2) << read_file(log);
  EXPECT_THAT(read_file(log), HasSubstr("restart 2 of 2 without a new checkpoint"));
}

TEST_F(Processes, AsManyAsAreAskedForTakeTheDegreeThatTheFileLeavesOpen) {
  config::RunConfig c = of_ranks("run", 1);
  c.parallelism.data_parallel_shard_degree = -1;
  c.training.threads = 2;
  std::vector<std::string> line = words(c);
  line.insert(line.end(), {"--ranks", "2"});
  RunProcess process(line, log);
  EXPECT_EQ(process.wait(), 0) << read_file(log);
  EXPECT_THAT(read_file(log), HasSubstr("2 ranks x 2 micro-batches"));

  c.parallelism.data_parallel_shard_degree = 4;
  line = words(c);
  line.insert(line.end(), {"--ranks", "2"});
  RunProcess refused(line, log);
  EXPECT_EQ(refused.wait(), 2);
  EXPECT_THAT(read_file(log), HasSubstr("multiply to the number of ranks, 2: data_parallel_shard_degree 4 is not 2"));
  EXPECT_EQ(times(read_file(log), "error:"), 1) << read_file(log);
}

TEST_F(Processes, OneThatIsKilledIsNamedAndTheRunGoesOnToTheSameBits) {
  config::RunConfig whole = of_ranks("whole", 3);
  whole.comm.train_timeout_seconds = 3600;  // is not what ends the others
  whole.training.steps = 40;
  whole.training.global_batch_size = 6;
  const auto expected = train(whole);

  config::RunConfig c = whole;
  c.job.dump_folder = "killed";
  for (const size_t victim : {2u, 0u}) {
    RunProcess process(words(c), log);
    const int64_t before = std::max<int64_t>(steps_logged(c), 0);
    ASSERT_TRUE(wait_until(process, [&] { return steps_logged(c) >= before + 6; })) << read_file(log);
    const std::vector<pid_t> ranks = process.ranks();
    ASSERT_EQ(ranks.size(), 3u);
    ::kill(ranks[victim], SIGKILL);
    EXPECT_EQ(process.wait(), 4);
    for (const pid_t rank : ranks) EXPECT_NE(::kill(rank, 0), 0) << "rank " << rank << " is still there";
    EXPECT_THAT(read_file(log), ContainsRegex(fmt::format("error: rank {} \\(.*{}", victim, ranks[victim])));
  }
  RunProcess last(words(c), log);
  EXPECT_EQ(last.wait(), 0) << read_file(log);
  expect_same_training(metrics::read_metrics(c.run_folder() / "metrics.jsonl"), expected);
  EXPECT_EQ(tensors_of(step_of(c, 40)), tensors_of(step_of(whole, 40)));
}

TEST_F(Processes, OneThatHangsIsNamedWithHostStepAndLastCall) {
  for (const size_t victim : {1u, 0u}) {
    config::RunConfig c = of_ranks(fmt::format("run-{}", victim), 2);
    const auto process = started_with_timeout(c, [&] { return steps_logged(c) >= 3; });
    ::kill(process->ranks().at(victim), SIGSTOP);
    EXPECT_EQ(process->wait(), 4);
    EXPECT_THAT(read_file(log),
                ContainsRegex(fmt::format("hangs: rank {} \\(.+, process [0-9]+\\) .*, in step [0-9]+", victim)));
    EXPECT_EQ(times(read_file(log), "error:"), 1) << read_file(log);
    std::filesystem::remove(log);
  }
}

// A limit of several beats: what rank 0's thread does with the lease is no sign of life.
TEST_F(Processes, OneThatHangsIsNamedAfterALimitThatIsLongerThanTheLeasesBeat) {
  config::RunConfig c = of_ranks("run", 2);
  c.comm.train_timeout_seconds = 10;
  const auto process = started(c);
  ::kill(process->ranks().at(1), SIGSTOP);
  EXPECT_EQ(process->wait(), 4);
  EXPECT_THAT(read_file(log), ContainsRegex("hangs: rank 1 \\(.+, process [0-9]+\\) .*, in step [0-9]+"));
}

// Also before its first step, where slow file systems hang.
TEST_F(Processes, OneThatHangsInItsStartIsNamed) {
  config::RunConfig c = of_ranks("run", 2);
  c.comm.init_timeout_seconds = 1;
  const auto process = started_with_timeout(c, [&] { return path_exists(c.run_folder() / "run.lock"); });
  ::kill(process->ranks().at(1), SIGSTOP);
  EXPECT_EQ(process->wait(), 4);
  EXPECT_THAT(read_file(log), ContainsRegex("hangs: rank 1 \\(.+, process [0-9]+\\) does not answer"));
}

TEST_F(Processes, ThatHangThroughMpiAreNamed) {
  const Path library = Path(test::hearth_binary()).parent_path() / "libhearth_mpi.so";
  if (!path_exists(library) || !path_exists("/usr/bin/mpirun.openmpi")) GTEST_SKIP() << "built without Open MPI";
  for (const int victim : {0, 2}) {
    config::RunConfig c = of_ranks(fmt::format("mpi-{}", victim), 3);
    c.training.global_batch_size = 6;
    c.comm.backend = config::CommBackend::kMpi;
    const auto process = started_with_timeout(c, [&] { return steps_logged(c) >= 3; },
                                              {"--allow-run-as-root", "--oversubscribe", "-n", "3"});
    ::kill(static_cast<pid_t>(trace::read_flight(trace::flight_file(c.run_folder() / "flight", victim)).process),
           SIGSTOP);
    EXPECT_EQ(process->wait(), 4);
    EXPECT_THAT(read_file(log),
                ContainsRegex(fmt::format("hangs: rank {} \\(.+, process [0-9]+\\) does not answer", victim)));
    // Open MPI wakes the rank before it ends it, and a rank 0 that wakes says that it was stopped.
    EXPECT_EQ(times(read_file(log), "error:"), 1 + times(read_file(log), "was stopped for")) << read_file(log);
    std::filesystem::remove(log);
  }
}

// Somebody tidies up while the run goes on.
TEST_F(Processes, WhoseMetricsAreRemovedWriteANewFileAndSaySo) {
  config::RunConfig c = of_ranks("run", 2);
  const auto process = started(c);
  const Path metrics = c.run_folder() / "metrics.jsonl";
  std::filesystem::remove(metrics);
  ASSERT_TRUE(wait_until(*process, [&] { return steps_logged(c) > 0; })) << read_file(log);
  ::kill(process->pid(), SIGTERM);
  EXPECT_EQ(process->wait(), 75) << read_file(log);
  EXPECT_THAT(read_file(log), HasSubstr(fmt::format("{} was removed", metrics.string())));
  EXPECT_EQ(metrics::read_metrics(metrics).back().step, checkpoint::list_steps(c.checkpoint_folder()).back());
}

TEST_F(Processes, AskedToLeaveWithADeadPeerTheyEndAndDoNotSave) {
  config::RunConfig c = of_ranks("run", 2);
  c.checkpoint.interval = 0;
  const auto process = started(c);
  const std::vector<pid_t> ranks = process->ranks();
  ::kill(ranks[1], SIGKILL);
  ::kill(ranks[0], SIGTERM);
  EXPECT_EQ(process->wait(), 4);
  EXPECT_FALSE(path_exists(step_of(c, steps_logged(c))));
}

TEST_F(Processes, OneOfThemAskedToLeaveAllSaveTheSameStep) {
  config::RunConfig c = of_ranks("run", 2);
  c.checkpoint.interval = 0;
  const auto process = started(c);
  ::kill(process->ranks().at(1), SIGTERM);
  EXPECT_EQ(process->wait(), 75) << read_file(log);
  EXPECT_TRUE(path_exists(step_of(c, steps_logged(c))));
}

// Rank 1 alone cannot write its part of the second checkpoint.
TEST_F(Processes, WhereTheDiskOfOneIsFullAllEndAndTheRunGoesOnToTheSameBits) {
  config::RunConfig whole = of_ranks("whole", 2);
  whole.checkpoint.interval = 4;
  const auto expected = train(whole);
  config::RunConfig c = whole;
  c.job.dump_folder = "full";
  for (const char* where : {"1:ENOSPC:__R_1.distcp", "2:ENOSPC:__R_1.distcp", "3:EIO:__R_1.distcp"}) {
    c.checkpoint.async_mode = *where == '2' ? config::AsyncMode::kAsync : config::AsyncMode::kDisabled;
    RunProcess process(words(c), log, where);
    EXPECT_EQ(process.wait(), static_cast<int>(ExitCode::kHardware)) << read_file(log);
    EXPECT_EQ(times(read_file(log), "error:"), 1) << read_file(log);
    EXPECT_THAT(read_file(log), ContainsRegex("error: cannot .*__R_1.distcp.*rank: rank 1 "));
    for (const FileEntry& left : files_under(c.checkpoint_folder()))
      EXPECT_THAT(left.path.string(), testing::Not(HasSubstr("__R_1.distcp"))) << "it takes room on a full disk";
    std::filesystem::remove(log);
  }
  EXPECT_TRUE(checkpoint::list_steps(c.checkpoint_folder()).empty());
  RunProcess last(words(c), log);
  EXPECT_EQ(last.wait(), 0) << read_file(log);
  expect_same_training(metrics::read_metrics(c.run_folder() / "metrics.jsonl"), expected);
  EXPECT_EQ(tensors_of(step_of(c, 12)), tensors_of(step_of(whole, 12)));
}

// The disk is full of a save that failed: it makes room before anything is written.
TEST_F(Processes, FindRoomForTheirLeaseWhereAFailedSaveTookIt) {
  config::RunConfig c = of_ranks("run", 2);
  make_folders(c.checkpoint_folder() / "step-00000004.1.tmp");
  write_file_atomic(c.checkpoint_folder() / "step-00000004.1.tmp" / "__R_0.distcp", "a part");
  RunProcess process(words(c), log, "1:ENOSPC:lease");
  EXPECT_EQ(process.wait(), 0) << read_file(log);
  EXPECT_THAT(read_file(log), HasSubstr("removed step-00000004.1.tmp, left by an interrupted save"));
}

TEST_F(Processes, AnErrorOfOneRankIsPrintedOnce) {
  config::RunConfig c = of_ranks("run", 2);
  c.data.path = "nothing";
  RunProcess process(words(c), log);
  EXPECT_EQ(process.wait(), 2);
  EXPECT_EQ(times(read_file(log), "error:"), 1) << read_file(log);
  EXPECT_FALSE(path_exists(c.run_folder()));
}

}  // namespace
}  // namespace hearth::train
