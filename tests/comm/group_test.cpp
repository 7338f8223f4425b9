// SPDX-License-Identifier: Apache-2.0
// Collectives against sums and copies computed directly, for one rank, for threads and for processes.
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <mutex>
#include <set>
#include <thread>
#include <tuple>
#include <vector>

#include "base/error.h"
#include "comm/buffers.h"
#include "comm/host_memory.h"
#include "comm/join.h"
#include "comm/ranks.h"
#include "group_suite.h"
#include "launch/launched_rank.h"
#include "launch/local_ranks.h"
#include "support/errors.h"

namespace hearth::comm {
namespace {

constexpr double kTimeout = 60;

// Calls `body` as each of R ranks.
using RunRanks = void (*)(int64_t ranks, const std::function<void(Group&)>& body);

void as_threads(int64_t ranks, const std::function<void(Group&)>& body) { run_ranks(ranks, kTimeout, body); }

// A failure in a rank's process is printed there, and is its exit code here.
void as_processes_with(const config::Comm& options, int64_t ranks, const std::function<void(Group&)>& body) {
  const launch::LocalEnd end = launch::run_local_ranks(ranks, [&](const launch::LaunchedRank& launched) {
    at::set_num_threads(1);  // OpenMP's threads do not survive a fork
    const Membership me{.rank = launched.rank, .size = launched.size, .address = launched.address, .key = launched.key};
    return run_as_rank(me, [&](Control&, const MakeGroup& make_group) {
      body(*make_group(options, {.splits_apart = true}));
      return testing::Test::HasFailure() ? 1 : 0;
    });
  });
  EXPECT_EQ(end.code, 0);
}

void as_processes(int64_t ranks, const std::function<void(Group&)>& body) {
  as_processes_with({.train_timeout_seconds = kTimeout}, ranks, body);
}

// Through what stands for NCCL, with sums in pairs.
void as_nccl_ranks(int64_t ranks, const std::function<void(Group&)>& body) {
  const std::string library = (Path(HEARTH_BUILD_DIR) / "tests" / "libhearth_fake_nccl.so").string();
  as_processes_with({.backend = config::CommBackend::kNccl, .nccl_library = library, .train_timeout_seconds = kTimeout},
                    ranks, body);
}

// The ranks that mpirun started (mpi_test.cpp), which names the library. The ranks meet anew in each test.
void as_mpi_ranks(int64_t ranks, const std::function<void(Group&)>& body) {
  const std::optional<launch::LaunchedRank> launched = launch::launched_rank_in_environment();
  const char* const library = std::getenv("HEARTH_TEST_MPI");
  ASSERT_TRUE(launched && library && launched->size == ranks) << "run by mpi_test.cpp";
  at::set_num_threads(1);
  const Membership me{
      .rank = launched->rank, .size = launched->size, .address = launched->address, .key = launched->key};
  const int code = run_as_rank(me, [&](Control&, const MakeGroup& make_group) {
    body(*make_group(config::Comm{config::CommBackend::kMpi, {}, library, kTimeout}, {}));
    return testing::Test::HasFailure() ? 1 : 0;
  });
  EXPECT_EQ(code, 0);
}

struct Kind {
  const char* name;
  RunRanks run;
  int64_t ranks;
};

class Collectives : public testing::TestWithParam<Kind> {};

TEST_P(Collectives, EqualDirectSumsAndCopiesInPlaceAndOutOfPlace) {
  GetParam().run(GetParam().ranks, check_collectives);
}

// Larger than the place of a rank (comm/host_memory.h), and not a multiple of it.
class LargeCollectives : public Collectives {};
TEST_P(LargeCollectives, TakeTensorsOfAnySize) {
  GetParam().run(GetParam().ranks, [](Group& group) {
    const int64_t n = HostMemory::kPlaceBytes / 4 + 1000;
    check_all_gather<float>(group, 1, n, true);
    check_reduce_scatter<float>(group, 2, n, false);
    check_all_reduce<float>(group, 3, 2 * n);
    check_all_to_all<float>(group, 4, n);
    check_unequal_all_to_all<float>(group, 6, n);
    check_transfers<double>(group, 5, n);
  });
}

TEST_P(Collectives, StayRightInThousandsOfRandomCalls) {
  GetParam().run(GetParam().ranks, [](Group& group) { check_random_calls(group, 3000); });
}

TEST_P(Collectives, OfGroupsThatWereSplitConcernTheirRanksOnly) {
  GetParam().run(GetParam().ranks, [](Group& all) { check_split_groups(all, 200); });
}

TEST_P(Collectives, GoOnWhileTheCallerComputes) { GetParam().run(GetParam().ranks, check_started_calls); }

TEST_P(Collectives, OfAGroupThatWasSplitApartRunBesideThoseOfOthers) {
  GetParam().run(GetParam().ranks, check_group_apart);
}

INSTANTIATE_TEST_SUITE_P(Ranks, Collectives,
                         testing::Values(Kind{"threads", as_threads, 1}, Kind{"threads", as_threads, 2},
                                         Kind{"threads", as_threads, 3}, Kind{"threads", as_threads, 4},
                                         Kind{"threads", as_threads, 5}, Kind{"processes", as_processes, 2},
                                         Kind{"processes", as_processes, 5}, Kind{"nccl", as_nccl_ranks, 2},
                                         Kind{"nccl", as_nccl_ranks, 3}),
                         [](const auto& about) { return fmt::format("{}{}", about.param.name, about.param.ranks); });

INSTANTIATE_TEST_SUITE_P(DISABLED_Mpi, Collectives, testing::Values(Kind{"ranks", as_mpi_ranks, 3}),
                         [](const auto& about) { return fmt::format("{}{}", about.param.name, about.param.ranks); });

INSTANTIATE_TEST_SUITE_P(DISABLED_Mpi, LargeCollectives, testing::Values(Kind{"ranks", as_mpi_ranks, 3}),
                         [](const auto& about) { return fmt::format("{}{}", about.param.name, about.param.ranks); });

INSTANTIATE_TEST_SUITE_P(Ranks, LargeCollectives,
                         testing::Values(Kind{"threads", as_threads, 3}, Kind{"processes", as_processes, 2},
                                         Kind{"nccl", as_nccl_ranks, 2}),
                         [](const auto& about) { return fmt::format("{}{}", about.param.name, about.param.ranks); });

TEST(Exchange, OfTensorsThatDoNotFitIsRefused) {
  const at::Tensor four = tensor_of<float>(4), six = tensor_of<float>(6), other_four = tensor_of<float>(4);
  const auto exchange = [](const at::Tensor& to, const at::Tensor& from, std::vector<int64_t> to_counts,
                           std::vector<int64_t> from_counts) {
    exchange_of(buffer_of(to, "all_to_all"), buffer_of(from, "all_to_all"), to_counts, from_counts, 2);
  };
  exchange(four, other_four, {}, {});
  exchange(four, six, {4, 0}, {1, 5});
  for (const auto& [to, from, to_counts, from_counts] :
       {std::tuple{four, six, std::vector<int64_t>{}, std::vector<int64_t>{}},
        {four, four, {}, {}},
        {four, other_four, {4, 0}, {}},
        {four, six, {4, 1}, {1, 5}},
        {four, six, {5, -1}, {1, 5}},
        {four, six, {4}, {6}},
        {tensor_of<float>(3), tensor_of<float>(3), {}, {}}})
    EXPECT_EQ(test::error_of([&, &to = to, &from = from, &a = to_counts, &b = from_counts] {
                exchange(to, from, a, b);
              }).code(),
              ExitCode::kBug);
}

TEST(Threads, GiveEveryRankItsOwnNumber) {
  std::mutex mutex;
  std::set<int64_t> seen;
  run_ranks(5, kTimeout, [&](Group& group) {
    EXPECT_EQ(group.size(), 5);
    const std::lock_guard lock(mutex);
    seen.insert(group.rank());
  });
  EXPECT_THAT(seen, testing::ElementsAre(0, 1, 2, 3, 4));
}

TEST(Single, IsAGroupOfOne) {
  const std::unique_ptr<Group> group = single();
  EXPECT_EQ(group->rank(), 0);
  EXPECT_EQ(group->size(), 1);
  check_all_gather<float>(*group, 1, 100, false);
  check_reduce_scatter<float>(*group, 2, 100, true);
  check_control(*group, 3);
  group->control().abort();
  EXPECT_THROW(group->control().barrier("a barrier"), Aborted);
}

TEST(Single, RunsInTheCallingThread) {
  const auto here = std::this_thread::get_id();
  run_ranks(1, kTimeout, [&](Group&) { EXPECT_EQ(std::this_thread::get_id(), here); });
}

TEST(Buffers, ThatCannotBeMovedAreOurBug) {
  const std::unique_ptr<Group> group = single();
  const at::Tensor ten = tensor_of<float>(10);
  EXPECT_THROW(group->all_gather(ten, tensor_of<float>(9)), Error);    // sizes
  EXPECT_THROW(group->all_gather(ten, tensor_of<double>(10)), Error);  // types
  EXPECT_THROW(group->all_reduce(tensor_of<int64_t>(3)), Error);       // not summable
  EXPECT_THROW(group->all_reduce(ten.view({5, 2}).t()), Error);        // not contiguous
  const at::Tensor twenty = tensor_of<float>(20);
  EXPECT_THROW(group->all_gather(twenty.narrow(0, 0, 10), twenty.narrow(0, 3, 10)), Error);  // overlap
}

}  // namespace
}  // namespace hearth::comm
