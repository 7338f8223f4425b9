// SPDX-License-Identifier: Apache-2.0
#include "run/rank_threads.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <vector>

#include "comm/ranks.h"
#include "machine/cores.h"
#include "ops/runtime.h"
#include "run/compute_device.h"

namespace hearth::run {
namespace {

// The cores that this process may use.
std::vector<int> cores_here() {
  cpu_set_t set;
  std::vector<int> cores;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return cores;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(static_cast<size_t>(core), &set)) cores.push_back(core);
  return cores;
}

// As a launcher binds a process.
void bind_to(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<size_t>(core), &set);
  ASSERT_EQ(::sched_setaffinity(0, sizeof set, &set), 0);
}

TEST(RankThreads, OfTheSameCoresShareThem) {
  for (const int64_t ranks : {1, 2, 3, 5})
    comm::run_ranks(ranks, 600, [&](comm::Group& group) {
      const RankThreads all = share_threads({}, /*threads=*/4, group.control());
      EXPECT_EQ(all.of_rank, ranks == 5 ? 1 : 4 / ranks);
      EXPECT_EQ(all.of_run, 4);
      config::RunConfig given;
      given.training.threads = 6;
      const RankThreads chosen = share_threads(given, 6, group.control());
      EXPECT_EQ(chosen.of_rank, 6 / ranks);
      EXPECT_EQ(chosen.of_run, 6);
    });
}

// Open MPI binds each of two ranks to a core: rank 0 measures one core, and the run has two.
TEST(RankThreads, OfRanksWithCoresOfTheirOwnAreAddedUp) {
  const std::vector<int> cores = cores_here();
  if (cores.size() < 2) GTEST_SKIP() << "one core";
  comm::run_ranks(2, 600, [&](comm::Group& group) {
    bind_to(cores[static_cast<size_t>(group.rank())]);
    const int64_t mine = machine::available_cores();
    EXPECT_EQ(mine, 1);
    const RankThreads all = share_threads({}, mine, group.control());
    EXPECT_EQ(all.of_rank, 1);
    EXPECT_EQ(all.of_run, 2);
    const double share = share_measured(at::kCPU, mine, all.of_run, group.control());
    if (group.rank() == 0) {
      EXPECT_EQ(share, 2);
    }
  });
}

TEST(RankThreads, MoreOfThemThanCoresAreNoFaster) {
  const auto cores = static_cast<int64_t>(cores_here().size());
  comm::run_ranks(2, 600, [&](comm::Group& group) {
    const double share = share_measured(at::kCPU, cores, 8 * cores, group.control());
    const double half = share_measured(at::kCPU, 2 * cores, cores, group.control());
    const double of_gpus = share_measured({at::kCUDA, 0}, cores, 8 * cores, group.control());
    if (group.rank() != 0) return;
    EXPECT_EQ(share, 1);
    EXPECT_EQ(half, 0.5);
    EXPECT_EQ(of_gpus, 2) << "a GPU for each rank";
  });
}

// A rate that seems too low was timed on a busy machine, so that a remembered one would be of no use.
TEST(PeakFlops, IsRememberedAndNowIsTimed) {
  ops::prepare_thread(1);
  EXPECT_EQ(peak_flops(at::kCPU, DType::kFloat32, 1), peak_flops(at::kCPU, DType::kFloat32, 1));
  const double now = peak_flops_now(at::kCPU, DType::kFloat32);
  EXPECT_GT(now, 0);
  EXPECT_NE(now, peak_flops_now(at::kCPU, DType::kFloat32)) << "two timings never take the same nanoseconds";
}

}  // namespace
}  // namespace hearth::run
