// Collectives against sums and copies computed directly, for one rank, for threads and for processes.
#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "base/error.h"
#include "checked_calls.h"
#include "comm/host_memory.h"
#include "comm/join.h"
#include "comm/ranks.h"
#include "launch/local_ranks.h"
#include "launch/place.h"

namespace hearth::comm {
namespace {

constexpr double kTimeout = 60;

void check_control(Group& group, int64_t seed) {
  const int64_t R = group.size();
  Control& control = group.control();
  EXPECT_EQ(control.rank(), group.rank());
  EXPECT_EQ(control.size(), R);
  const double mine[] = {value_at(seed, group.rank(), 0), value_at(seed, group.rank(), 1)};
  EXPECT_THAT(control.sum("a sum", mine), testing::ElementsAre(sum_at<double>(seed, R, 0), sum_at<double>(seed, R, 1)));
  EXPECT_EQ(control.any("a vote", seed % (2 * R) == group.rank()), seed % (2 * R) < R);
  EXPECT_EQ(control.broadcast("a name", group.rank() == 0 ? "of rank 0" : "of another"), "of rank 0");
  const Posted first = control.post("the first", fmt::format("{},", group.rank()), merge_lists);
  const Posted second = control.post("the second", fmt::format("{},", 2 * group.rank()), merge_lists);
  control.barrier("between");
  std::string ranks, doubles;
  for (int64_t r = 0; r < R; ++r) {
    ranks += fmt::format("{},", r);
    doubles += fmt::format("{},", 2 * r);
  }
  EXPECT_EQ(control.collect(second), doubles);
  EXPECT_EQ(control.collect(first), ranks);
  EXPECT_EQ(control.first("who speaks", group.rank() >= R / 2 ? fmt::format("{}", group.rank()) : ""),
            fmt::format("{}", R / 2));
  const std::vector<std::string> of_all = control.gather("for rank 0", fmt::format("{}", 3 * group.rank()));
  ASSERT_EQ(std::ssize(of_all), group.rank() == 0 ? R : 0);
  if (!of_all.empty()) {
    EXPECT_EQ(of_all.back(), fmt::format("{}", 3 * (R - 1)));
  }
  const std::string bytes(static_cast<size_t>(group.rank()), '\0');
  const std::vector<std::string> all = control.all_gather("bytes", bytes + "!");
  ASSERT_EQ(static_cast<int64_t>(all.size()), R);
  for (int64_t r = 0; r < R; ++r)
    EXPECT_EQ(all[static_cast<size_t>(r)], std::string(static_cast<size_t>(r), '\0') + "!");
}

// An error of one rank, or of several, is thrown by all: that of the first.
void check_together(Group& group) {
  Control& control = group.control();
  control.together("nothing wrong", [] {});
  const int64_t last = group.size() - 1;
  try {
    control.together("an error", [&] {
      if (group.rank() == last) throw damaged("what of the last", "why", "fix").about("data.path");
    });
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), damaged("what of the last", "why", "fix").what());
    EXPECT_EQ(error.code(), ExitCode::kDamaged);
    EXPECT_EQ(error.key(), "data.path");
  }
  EXPECT_THROW(control.together("errors", [&] { throw user_error(std::to_string(group.rank())); }), Error);
}

// Calls `body` as each of R ranks.
using RunRanks = void (*)(int64_t ranks, const std::function<void(Group&)>& body);

void as_threads(int64_t ranks, const std::function<void(Group&)>& body) { run_ranks(ranks, kTimeout, body); }

// A failure in a rank's process is printed there, and is its exit code here.
void as_processes_with(const config::Comm& options, int64_t ranks, const std::function<void(Group&)>& body) {
  const launch::LocalEnd end = launch::run_local_ranks(ranks, [&](const launch::Place& place) {
    at::set_num_threads(1);  // OpenMP's threads do not survive a fork
    const Membership me{.rank = place.rank, .size = place.size, .address = place.address, .key = place.key};
    return run_as_rank(me, [&](Control&, const MakeGroup& make_group) {
      body(*make_group(options, {}));
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
  const std::optional<launch::Place> place = launch::place_in_environment();
  const char* const library = std::getenv("HEARTH_TEST_MPI");
  ASSERT_TRUE(place && library && place->size == ranks) << "run by mpi_test.cpp";
  at::set_num_threads(1);
  const Membership me{.rank = place->rank, .size = place->size, .address = place->address, .key = place->key};
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
  GetParam().run(GetParam().ranks, [](Group& group) {
    for (const int64_t n : {int64_t{0}, int64_t{1}, int64_t{7}, int64_t{1024}, int64_t{3001}}) {
      for (const bool in_place : {false, true}) {
        check_all_gather<float>(group, n, n, in_place);
        check_all_gather<double>(group, n + 1, n, in_place);
        check_all_gather<int64_t>(group, n + 2, n, in_place);
        check_reduce_scatter<float>(group, n + 3, n, in_place);
        check_reduce_scatter<double>(group, n + 4, n, in_place);
      }
      check_all_reduce<float>(group, n + 5, n);  // 1, 7 and 3001 do not divide by the ranks
      check_all_reduce<double>(group, n + 6, n);
      check_all_to_all<float>(group, n + 7, n);
      check_transfers<float>(group, n + 7, n);
      check_bfloat16(group, n + 8, n);
      check_control(group, n + 9);
      group.control().barrier("a barrier");
    }
    check_together(group);
  });
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
    check_transfers<double>(group, 5, n);
  });
}

// The ranks draw the same plan from the same seed and reach each operation at different times.
TEST_P(Collectives, StayRightInThousandsOfRandomCalls) {
  GetParam().run(GetParam().ranks, [](Group& group) {
    std::mt19937_64 plan(17);
    std::mt19937_64 own(static_cast<uint64_t>(group.rank()));
    for (int64_t i = 0; i < 3000 && !testing::Test::HasFailure(); ++i) {
      const auto n = static_cast<int64_t>(plan() % 40);
      const bool in_place = plan() % 2 == 0;
      const auto kind = plan() % 8;
      if (own() % 4 == 0) std::this_thread::yield();
      if (own() % 500 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      if (kind == 0) check_all_gather<float>(group, i, n, in_place);
      if (kind == 1) check_all_gather<double>(group, i, n, in_place);
      if (kind == 2) check_reduce_scatter<float>(group, i, n, in_place);
      if (kind == 3) check_reduce_scatter<double>(group, i, n, in_place);
      if (kind == 4) check_all_reduce<float>(group, i, n);
      if (kind == 5) check_control(group, i);
      if (kind == 6) check_all_to_all<double>(group, i, n);
      if (kind == 7) check_transfers<double>(group, i, n);
    }
  });
}

// The ranks that are equal to this one modulo `stride`, or those of its block of `stride` neighbours.
std::vector<int64_t> members_of(int64_t rank, int64_t ranks, int64_t stride, bool neighbours) {
  std::vector<int64_t> members;
  for (int64_t r = 0; r < ranks; ++r)
    if (neighbours ? r / stride == rank / stride : r % stride == rank % stride) members.push_back(r);
  return members;
}

TEST_P(Collectives, OfGroupsThatWereSplitConcernTheirRanksOnly) {
  GetParam().run(GetParam().ranks, [](Group& all) {
    const auto rows = all.split(members_of(all.rank(), all.size(), 2, true));
    const auto columns = all.split(members_of(all.rank(), all.size(), 2, false));
    const auto part_of_columns = columns->split(members_of(columns->rank(), columns->size(), 2, true));
    EXPECT_EQ(columns->rank(), all.rank() / 2);
    EXPECT_EQ(part_of_columns->rank(), all.rank() / 2 % 2);
    EXPECT_EQ(rows->rank(), all.rank() % 2);
    EXPECT_EQ(&rows->control(), &all.control());
    std::mt19937_64 plan(29);
    for (int64_t i = 0; i < 200; ++i) {
      const auto n = static_cast<int64_t>(plan() % 3000);
      Group& group = plan() % 3 == 0 ? all : plan() % 3 == 1 ? *rows : plan() % 2 == 0 ? *columns : *part_of_columns;
      check_all_gather<float>(group, i, n, plan() % 2 == 0);
      check_reduce_scatter<float>(group, i, n, plan() % 2 == 0);
      check_all_reduce<double>(group, i, n);
      check_all_to_all<float>(group, i, n);
    }
  });
}

// Calls that were started run in their order, between those that the caller waits for.
TEST_P(Collectives, GoOnWhileTheCallerComputes) {
  GetParam().run(GetParam().ranks, [](Group& all) {
    const int64_t R = all.size();
    const auto pairs = all.split(members_of(all.rank(), R, 2, true));
    std::vector<at::Tensor> values;
    std::vector<Work> works;
    for (int64_t i = 0; i < 50; ++i) {
      const at::Tensor mine = filled<float>(i, all.rank(), 100);
      values.push_back(mine);
      Group& group = i % 2 == 0 ? all : *pairs;
      works.push_back(all.start([&group, mine] {
        group.all_reduce(mine);
        mine.mutable_data_ptr<float>()[0] += 1;  // the caller sees this, too
      }));
      if (i % 7 == 0) check_all_gather<float>(all, i, 10, false);
    }
    for (Work& work : works) work.wait();
    for (int64_t i = 0; i < 50; i += 2) {
      expect_elements<float>(values[static_cast<size_t>(i)],
                             [&](int64_t k) { return sum_at<float>(i, R, k) + (k == 0 ? 1.0F : 0.0F); });
    }
  });
}

// A transfer that waits for its partner does not hold up the calls of other groups.
TEST_P(Collectives, OfAGroupThatWasSplitApartRunBesideThoseOfOthers) {
  GetParam().run(GetParam().ranks, [](Group& all) {
    const auto apart = all.split_apart(members_of(all.rank(), all.size(), all.size(), true));
    const int64_t last = all.size() - 1;
    if (last == 0) return;
    const at::Tensor values = all.rank() == 0 ? tensor_of<float>(1000) : filled<float>(3, all.rank(), 1000);
    Work transfer;
    if (all.rank() == 0) transfer = apart->start([&] { apart->recv(values, last); });
    check_all_reduce<float>(all, 1, 100);  // returns although nobody has sent
    if (all.rank() == last) apart->send(values, 0);
    transfer.wait();
    if (all.rank() == 0) expect_elements<float>(values, [&](int64_t i) { return value_at(3, last, i); });
    check_all_reduce<float>(*apart, 2, 100);
  });
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
