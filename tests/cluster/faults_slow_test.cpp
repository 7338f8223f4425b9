// SPDX-License-Identifier: Apache-2.0
// Jobs under a real Slurm that lose their nodes in other ways than by a time limit or a death.
#include "checkpoint/verify.h"
#include "runfolder/lease_holder.h"
#include "submitted_runs.h"

namespace hearth::cluster {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Nodes with one rank each, through MPI.
class NodesOfOneRank : public ComparedRuns {
 protected:
  void SetUp() override {
    if (const std::string why = Cluster::why_not(); !why.empty()) GTEST_SKIP() << why;
    if (!std::filesystem::exists("/usr/bin/mpirun.openmpi")) GTEST_SKIP() << "Open MPI is not here";
    write_file_atomic(toml("cluster"),
                      "[job]\nranks_per_node = 1\nsignal_lead_seconds = 10\n[start]\nlauncher_options = "
                      "[\"--mpi=pmix\"]\n[environment]\nOMP_NUM_THREADS = 1\n"
                      "[preflight]\nleast_share = 0.01\n");  // other work shares these cores
  }
  std::string nodes_of(const std::string& job) {
    return test::run_command("squeue --noheader --states=all --jobs=" + job + " --format=%N").output;
  }
};

TEST_F(NodesOfOneRank, LeaveOutTheNodeThatIsOffByThemselves) {
  Cluster cluster(Cluster::Network::kShared, /*nodes=*/4);
  train_undisturbed();
  for (const bool requeue : {true, false}) {
    const std::string name = requeue ? "requeued" : "chained";
    std::string text = read_file(toml("cluster"));
    if (!requeue) text.insert(text.find("signal_lead"), "requeue = false\n");
    write_file_atomic(toml("cluster"), text);
    write_run(name, kSteps, kInterval);
    make_folders(folder(name));
    cluster.make_read_only("node2", folder(name));
    const std::string job = submit(name, "--preflight --exclude node3");
    ASSERT_TRUE(gets_done(name)) << output(name);
    // Each node is asked before the preflight, which all nodes have to start.
    EXPECT_THAT(reasons(name),
                ElementsAre(HasSubstr("node2 is off (node2: cannot create "), "the training is complete"));
    EXPECT_THAT(output(name), HasSubstr("hearth: node node2: cannot create"));
    EXPECT_THAT(output(name), HasSubstr("steps          fine"));
    // The nodes that a person left out stay out.
    EXPECT_EQ(nodes_of(newest_job(read_starts(folder(name)))), "node[1,4]\n") << output(name);
    EXPECT_EQ(newest_job(read_starts(folder(name))) == job, requeue);
    expect_same_run(name, "undisturbed");
  }
}

// A folder that is not mounted on a node: that of the program, or that of the data.
TEST_F(NodesOfOneRank, LeaveOutTheNodeThatCannotStartTheRun) {
  train_undisturbed();
  int number = 0;
  for (const std::string options : {"--preflight", "", "data"}) {
    Cluster cluster(Cluster::Network::kShared, /*nodes=*/3);
    const std::string name = fmt::format("run{}", ++number);
    write_run(name, kSteps, kInterval);
    cluster.hide("node2", options == "data" ? scratch / "data" : Path(HEARTH_BIN_DIR));
    const std::string job = submit(name, options == "data" ? "" : options);
    ASSERT_TRUE(gets_done(name)) << output(name);
    EXPECT_THAT(reasons(name), ElementsAre(options == "data" ? HasSubstr("node2 is off (node2: ")
                                                             : HasSubstr("node2 cannot start the program"),
                                           "the training is complete"))
        << output(name);
    EXPECT_EQ(newest_job(read_starts(folder(name))), job);
    EXPECT_EQ(nodes_of(job), "node[1,3]\n");
    expect_same_run(name, "undisturbed");
  }
}

// The job's first node is the one, so that nothing of Hearth runs there.
TEST_F(NodesOfOneRank, LeaveOutTheirFirstNodeIfItCannotStartTheRun) {
  Cluster cluster(Cluster::Network::kShared, /*nodes=*/3);
  write_run("run", 100, 50);
  cluster.hide("node1", Path(HEARTH_BIN_DIR));
  submit("run");
  ASSERT_TRUE(gets_done("run")) << output("run");
  EXPECT_THAT(output("run"), HasSubstr("node node1 does not start the program: the next start leaves it out"));
  EXPECT_THAT(reasons("run"), ElementsAre("the training is complete"));
}

// `hearth preflight --exclude-bad` in a script that somebody else wrote.
TEST_F(NodesOfOneRank, AreExchangedInAScriptOfOnesOwn) {
  Cluster cluster(Cluster::Network::kShared, /*nodes=*/4);
  write_run("run", 10, 5);
  make_folders(folder("run"));
  cluster.make_read_only("node2", folder("run"));
  const Path script = scratch / "mine.sh", log = scratch / "mine.log";
  write_file_atomic(script,
                    fmt::format("#!/bin/bash\n#SBATCH -N2 --ntasks-per-node=1 --exclude=node3 --requeue "
                                "--open-mode=append --output={}\nsrun --mpi=pmix {} preflight {} --cluster {} "
                                "--exclude-bad || exit\necho trains on $SLURM_JOB_NODELIST\n",
                                log.string(), test::hearth_binary(), toml("run").string(), toml("cluster").string()));
  test::run_command("sbatch " + script.string());
  ASSERT_TRUE(comes_true([&] { return path_exists(log) && read_file(log).find("trains on") != std::string::npos; }))
      << read_file(log);
  EXPECT_THAT(read_file(log), HasSubstr("goes back to the queue, to start without node2"));
  EXPECT_THAT(read_file(log), HasSubstr("trains on node[1,4]\n"));
}

class SlurmFaults : public SlurmRuns {
 protected:
  // A job of another partition that takes both nodes for a few seconds.
  void take_the_nodes() {
    test::run_command("sbatch -N2 --exclusive --partition=urgent --output=/dev/null --wrap='sleep 3'");
  }
  void write_cluster(const std::string& job_keys) {
    write_file_atomic(toml("cluster"), "[job]\nranks_per_node = 2\nsignal_lead_seconds = 10\n" + job_keys +
                                           "[environment]\nOMP_NUM_THREADS = 1\n");
  }
};

TEST_F(SlurmFaults, APreemptedJobGoesOnWithAndWithoutTimeToSave) {
  train_undisturbed();
  for (const std::string partition : {"main", "patient"}) {
    write_run(partition, kSteps, kInterval);
    const std::string job = submit(partition, "--partition " + partition);
    ASSERT_TRUE(comes_true([&] { return is_at(partition, 350); })) << output(partition);
    take_the_nodes();
    ASSERT_TRUE(gets_done(partition)) << output(partition);
    EXPECT_EQ(newest_job(read_starts(folder(partition))), job);
    expect_same_run(partition, "undisturbed");
  }
  EXPECT_THAT(reasons("main"), ElementsAre(HasSubstr("the job was asked to end: it was cancelled, preempted, or"),
                                           "the training is complete"));
  EXPECT_THAT(reasons("patient"), ElementsAre("the job was preempted", "the training is complete"));
  // With time to save, nothing was computed twice.
  EXPECT_EQ(metrics::read_history(folder("patient") / "metrics.jsonl").repeated_steps, 0);
}

// A job in the queue may be changed: here it goes on with half of its nodes.
TEST_F(SlurmFaults, AJobGoesOnWithAnotherNumberOfNodes) {
  if (!std::filesystem::exists("/usr/bin/mpirun.openmpi")) GTEST_SKIP() << "Open MPI is not here";
  const std::string reproducible = "[numerics]\nreproducible = true\n";
  const auto write_elastic_run = [&](const std::string& name) {
    write_run(name, kSteps, kInterval);
    std::string text = read_file(toml(name));
    text.replace(text.find("data_parallel_shard_degree = 2"), 30, "data_parallel_shard_degree = -1");
    text.replace(text.find("threads = 2"), 11, "threads = 2\nglobal_batch_size = 8");
    write_file_atomic(toml(name), text + reproducible);
  };
  write_elastic_run("undisturbed");
  const CommandResult one = run_hearth("train " + toml("undisturbed").string() + " --ranks 1 --set training.threads=1");
  ASSERT_EQ(one.exit_code, 0) << one.output;
  write_file_atomic(toml("cluster"),
                    "[job]\nranks_per_node = 1\nsignal_lead_seconds = 10\n[start]\nlauncher_options = "
                    "[\"--mpi=pmix\"]\n[environment]\nOMP_NUM_THREADS = 1\n");
  write_elastic_run("run");
  const std::string job = submit("run", "--nodes 2");
  ASSERT_FALSE(job.empty());
  ASSERT_TRUE(comes_true([&] { return is_at("run", 250); })) << output("run");
  test::run_command("scancel --batch --signal=USR2 " + job);
  ASSERT_TRUE(comes_true([&] { return state("run") == RunState::kQueued; })) << output("run");
  const CommandResult fewer = test::run_command(fmt::format("scontrol update JobId={} NumNodes=1 NumTasks=1", job));
  ASSERT_EQ(fewer.exit_code, 0) << fewer.output;
  // A thread for each rank, as before: products depend on it.
  std::string text = read_file(toml("run"));
  write_file_atomic(toml("run"), text.replace(text.find("threads = 2"), 11, "threads = 1"));
  ASSERT_TRUE(gets_done("run")) << output("run");
  EXPECT_THAT(reasons("run"), ElementsAre("the time limit came", "the training is complete"));
  expect_same_run("run", "undisturbed");
}

TEST_F(ComparedRuns, OnAFullDiskStopAtOnceSayWhyAndGoOnWithMoreRoom) {
  if (const std::string why = Cluster::why_not(); !why.empty()) GTEST_SKIP() << why;
  train_undisturbed(/*steps=*/600);
  write_run("run", 600, 50);
  make_folders(folder("run"));
  // A checkpoint has about a megabyte.
  const std::string disk = folder("run").string();
  ASSERT_EQ(test::run_command("mount -t tmpfs -o size=2m none " + disk).exit_code, 0);
  {
    const Cluster cluster;
    submit("run");
    EXPECT_FALSE(gets_done("run"));
    const std::string status = status_text(run_status(folder("run"))), printed = output("run");
    EXPECT_THAT(status, HasSubstr("No space left")) << printed;
    EXPECT_THAT(reasons("run"), ElementsAre(HasSubstr("the disk is full: cannot write"))) << printed;
    test::run_command("mount -o remount,size=64m " + disk);
    submit("run");
    EXPECT_TRUE(gets_done("run")) << output("run");
    expect_same_run("run", "undisturbed");
  }
  test::run_command("umount --lazy " + disk);
}

// Slurm starts the job again on the other node, while the first one computes on, hears nobody, and reaches the disk.
class CutOffRuns : public ComparedRuns, public testing::WithParamInterface<const char*> {};

TEST_P(CutOffRuns, GoOnElsewhereWhenTheirNodeIsCutOff) {
  if (const std::string why = Cluster::why_not(); !why.empty()) GTEST_SKIP() << why;
  Cluster cluster(Cluster::Network::kOfEachNode);
  train_undisturbed(/*steps=*/6000);
  // As on Lustre, GPFS and NFSv4 all hosts see one lock; or each node has locks of its own.
  if (std::string(GetParam()) == "LocalLocks")
    write_file_atomic(toml("cluster"), fmt::format("{}LD_PRELOAD = \"{}/tests/libhearth_failpoint.so\"\n"
                                                   "HEARTH_LOCAL_LOCKS = 1\n",
                                                   read_file(toml("cluster")), HEARTH_BUILD_DIR));
  write_run("run", 6000, kInterval);
  const std::string job = submit("run");
  ASSERT_TRUE(comes_true([&] { return is_at("run", 250); })) << output("run");
  const auto holder = [&] { return runfolder::read_lease(folder("run")).value_or(runfolder::LeaseHolder{}); };
  const std::string first = holder().host;
  cluster.cut(first);
  ASSERT_TRUE(comes_true([&] { return output("run").find("leaves: it was started again on") != std::string::npos; }))
      << output("run");
  ASSERT_TRUE(gets_done("run")) << output("run");
  EXPECT_EQ(newest_job(read_starts(folder("run"))), job);
  EXPECT_NE(holder().host, first);
  EXPECT_THAT(output("run"), HasSubstr("this training was replaced by another start"));
  EXPECT_THAT(reasons("run"), ElementsAre("the training is complete"));  // the first node wrote nothing
  expect_same_run("run", "undisturbed");
}

INSTANTIATE_TEST_SUITE_P(, CutOffRuns, testing::Values("OneLock", "LocalLocks"),
                         [](const auto& locks) { return std::string(locks.param); });

// The first start hangs, so that it neither ends nor leaves the lock: the next one goes on after a while.
TEST_F(ComparedRuns, GoOnElsewhereWhenTheOlderStartHangsWithTheLock) {
  if (const std::string why = Cluster::why_not(); !why.empty()) GTEST_SKIP() << why;
  Cluster cluster(Cluster::Network::kOfEachNode);
  train_undisturbed(/*steps=*/3000);
  write_run("run", 3000, kInterval);
  submit("run");
  ASSERT_TRUE(comes_true([&] { return is_at("run", 250); })) << output("run");
  const runfolder::LeaseHolder first = runfolder::read_lease(folder("run")).value();
  const std::string ranks = fmt::format("pgrep --full '[h]earth-train train {}'", toml("run").string());
  const std::string old_ranks = join(split_lines(test::run_command(ranks).output), " ");
  test::run_command("kill -STOP " + old_ranks);
  cluster.cut(first.host);
  ASSERT_TRUE(gets_done("run")) << output("run");
  EXPECT_THAT(output("run"), HasSubstr("the older start has not ended within"));
  // They wake up late, and write nothing.
  test::run_command("kill -CONT " + old_ranks);
  ASSERT_TRUE(comes_true([&] { return test::run_command(ranks).exit_code != 0; })) << output("run");
  expect_same_run("run", "undisturbed");
  for (const int64_t step : checkpoint::list_steps(folder("run") / "checkpoints"))
    EXPECT_TRUE(checkpoint::verify_checkpoint(folder("run") / "checkpoints" / fmt::format("step-{:08}", step))
                    .problems.empty());
}

}  // namespace
}  // namespace hearth::cluster
