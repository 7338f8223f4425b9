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
    ASSERT_TRUE(comes_true([&] { return state(name) == RunState::kDone; })) << output(name);
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

}  // namespace
}  // namespace hearth::cluster
