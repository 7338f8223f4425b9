// SPDX-License-Identifier: Apache-2.0
// Two hosts with a name and a network each, under a real Slurm. What they share is the disk.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "checkpoint/manifest.h"
#include "checkpoint/retain.h"
#include "checkpoint/verify.h"
#include "run_process.h"
#include "support/slurm_cluster.h"

namespace hearth::train {
namespace {

using test::Cluster;
using testing::HasSubstr;

struct Hosts : TinyData {
  void cut_off(const std::string& environment);
  void SetUp() override {
    if (const std::string why = Cluster::why_not(); !why.empty()) GTEST_SKIP() << why;
    if (!std::filesystem::exists("/usr/bin/mpirun.openmpi")) GTEST_SKIP() << "Open MPI is not here";
    cluster.emplace(Cluster::Network::kOfEachNode);
  }
  std::optional<Cluster> cluster;
  Path log = scratch / "log";
};

// The host of rank 0 that wrote a checkpoint.
std::string host_of(const Path& checkpoint) {
  const Path manifest = checkpoint / "hearth.json";
  return checkpoint::parse_manifest(read_file(manifest), manifest).host;
}

// False after ten minutes.
template <typename Condition>
bool comes_true(Condition condition) {
  for (int tenths = 0; tenths < 6000 && !condition(); ++tenths)
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  return condition();
}

TEST_F(Hosts, TrainThroughMpiToTheBitsOfThreads) {
  config::RunConfig threads = tiny_config(scratch);
  threads.job.dump_folder = "threads";
  threads.parallelism.data_parallel_shard_degree = 2;
  threads.parallelism.tensor_parallel_degree = 2;
  threads.training.threads = 4;
  const auto expected = train(threads);
  config::RunConfig c = threads;
  c.job.dump_folder = "hosts";
  RunProcess process({"-N2", "-n4", "--mpi=pmix", "--kill-on-bad-exit=1", train_binary(), "train", write_run_file(c)},
                     log, "", "/usr/bin/srun");
  ASSERT_EQ(process.wait(), 0) << read_file(log);
  expect_same_training(metrics::read_metrics(c.run_folder() / "metrics.jsonl"), expected);
  EXPECT_EQ(tensors_of(step_of(c, 12)), tensors_of(step_of(threads, 12)));
}

// Slurm starts the job again on the other node. The first one computes on, because its ranks need nobody else.
void Hosts::cut_off(const std::string& environment) {
  config::RunConfig c = tiny_config(scratch);
  c.job.dump_folder = "run";
  c.parallelism.data_parallel_shard_degree = 2;
  c.training.threads = 2;
  c.training.steps = 1'000'000;
  c.checkpoint.interval = 200;
  const std::string command = fmt::format("{} {} train {}", environment, train_binary(), write_run_file(c).string());
  const test::CommandResult submitted = test::run_command(
      fmt::format("sbatch -N1 --requeue --open-mode=append --output={} --wrap='{}'", log.string(), command));
  ASSERT_EQ(submitted.exit_code, 0) << submitted.output;
  const auto steps = [&] { return checkpoint::list_steps(c.checkpoint_folder()); };
  const auto lease = [&] {
    const Path file = c.run_folder() / "lease";
    return path_exists(file) ? read_file(file) : "";
  };
  ASSERT_TRUE(comes_true([&] { return !steps().empty(); })) << read_file(log);
  const bool on_first = lease().find("host = node1\n") != std::string::npos;
  const std::string first = on_first ? "node1" : "node2", second = on_first ? "node2" : "node1";
  cluster->cut(first);
  ASSERT_TRUE(comes_true([&] { return lease().find("host = " + second) != std::string::npos; })) << read_file(log);
  const int64_t before = steps().back();
  ASSERT_TRUE(comes_true([&] { return read_file(log).find("was replaced by another start") != std::string::npos; }));
  EXPECT_THAT(read_file(log), HasSubstr("was replaced by another start: on " + second));
  // The newer start may have to compute for a while what the older one had done.
  ASSERT_TRUE(comes_true([&] { return steps().back() > before + c.checkpoint.interval; })) << read_file(log);
  test::run_command("scancel --user=root");
  ASSERT_TRUE(comes_true([&] { return test::run_command("squeue --noheader").output.empty(); }));
  for (const int64_t step : steps()) {
    EXPECT_TRUE(checkpoint::verify_checkpoint(step_of(c, step)).problems.empty()) << step;
    if (step > before) {
      EXPECT_EQ(host_of(step_of(c, step)), second) << step;
    }
  }
}

// As on Lustre, GPFS and NFSv4: a lock is one for all hosts. The job is a script of somebody's own.
TEST_F(Hosts, OneThatIsCutOffWritesNoCheckpointOnceTheJobWasStartedElsewhere) { cut_off(""); }

TEST_F(Hosts, OneThatIsCutOffWritesNoCheckpointWhereLocksAreOfEachHost) {
  cut_off(fmt::format("LD_PRELOAD={}/tests/libhearth_failpoint.so HEARTH_LOCAL_LOCKS=1", HEARTH_BUILD_DIR));
}

}  // namespace
}  // namespace hearth::train
