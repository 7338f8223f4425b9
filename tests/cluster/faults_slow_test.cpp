// Jobs under a real Slurm that lose their nodes in other ways than by a time limit or a death.
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
    EXPECT_THAT(reasons(name), ElementsAre("hearth preflight found node2 off: the next start leaves out what is off",
                                           "the training is complete"));
    EXPECT_THAT(output(name), HasSubstr("files          OFF          node2: cannot create"));
    EXPECT_THAT(output(name), HasSubstr("steps          fine"));
    // The nodes that a person left out stay out.
    EXPECT_EQ(nodes_of(newest_job(read_starts(folder(name)))), "node[1,4]\n") << output(name);
    EXPECT_EQ(newest_job(read_starts(folder(name))) == job, requeue);
    expect_same_run(name, "undisturbed");
  }
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
  EXPECT_THAT(reasons("main"),
              ElementsAre("the job was asked to end: cancelled, or preempted", "the training is complete"));
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

// Slurm starts the job again on the other node, while the first one computes on and hears nobody.
TEST_F(ComparedRuns, GoOnElsewhereWhenTheirNodeIsCutOff) {
  if (const std::string why = Cluster::why_not(); !why.empty()) GTEST_SKIP() << why;
  Cluster cluster(Cluster::Network::kOfEachNode);
  train_undisturbed(/*steps=*/6000);
  // Each node has its own locks, as on several machines.
  write_file_atomic(toml("cluster"), fmt::format("{}LD_PRELOAD = \"{}/tests/libhearth_failpoint.so\"\n"
                                                 "HEARTH_LOCAL_LOCKS = 1\n",
                                                 read_file(toml("cluster")), HEARTH_BUILD_DIR));
  write_run("run", 6000, kInterval);
  const std::string job = submit("run");
  ASSERT_TRUE(comes_true([&] { return is_at("run", 250); })) << output("run");
  const std::string first = read_lease(folder("run")).value_or(LeaseHolder{}).host;
  cluster.cut(first);
  ASSERT_TRUE(comes_true([&] { return output("run").find("leaves: it was started again on") != std::string::npos; }))
      << output("run");
  ASSERT_TRUE(gets_done("run")) << output("run");
  EXPECT_EQ(newest_job(read_starts(folder("run"))), job);
  EXPECT_NE(read_lease(folder("run")).value_or(LeaseHolder{}).host, first);
  EXPECT_THAT(reasons("run"), ElementsAre("the training is complete"));  // the first node wrote nothing
  expect_same_run("run", "undisturbed");
}

}  // namespace
}  // namespace hearth::cluster
