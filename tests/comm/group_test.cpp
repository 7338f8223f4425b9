// Collectives against sums and copies computed directly, for one rank and for threads.
#include "comm/group.h"

#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include <cmath>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/random.h"

namespace hearth::comm {
namespace {

constexpr double kTimeout = 60;

// Element `index` of rank `rank`'s input. It is not a round number, so the order of a float32 sum shows.
double value_at(int64_t seed, int64_t rank, int64_t index) {
  const RandomKey key = random_key(static_cast<uint64_t>(seed), fmt::format("rank {}", rank));
  return random_normal(key, static_cast<uint64_t>(index));
}

template <typename T>
at::Tensor tensor_of(int64_t numel) {
  return at::empty({numel}, at::TensorOptions().dtype(c10::CppTypeToScalarType<T>::value));
}

template <typename T>
at::Tensor filled(int64_t seed, int64_t rank, int64_t numel) {
  at::Tensor tensor = tensor_of<T>(numel);
  for (int64_t i = 0; i < numel; ++i) tensor.mutable_data_ptr<T>()[i] = static_cast<T>(value_at(seed, rank, i));
  return tensor;
}

// ((x_0 + x_1) + (x_2 + x_3)) + ... in T.
template <typename T>
T sum_at(int64_t seed, int64_t ranks, int64_t index) {
  // In pairs, written out: neighbours are added until one number is left; one without a neighbour waits.
  std::vector<T> sums;
  for (int64_t r = 0; r < ranks; ++r) sums.push_back(static_cast<T>(value_at(seed, r, index)));
  while (sums.size() > 1) {
    for (size_t i = 0; i + 1 < sums.size(); ++i) {
      sums[i] += sums[i + 1];
      sums.erase(sums.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    }
  }
  return sums.front();
}

template <typename T>
void expect_elements(const at::Tensor& tensor, const std::function<T(int64_t)>& expected) {
  for (int64_t i = 0; i < tensor.numel(); ++i) {
    ASSERT_EQ(tensor.const_data_ptr<T>()[i], expected(i)) << "element " << i << " of " << tensor.numel();
  }
}

template <typename T>
void check_all_gather(Group& group, int64_t seed, int64_t n, bool in_place) {
  const at::Tensor mine = filled<T>(seed, group.rank(), n);
  const at::Tensor full = tensor_of<T>(group.size() * n);
  at::Tensor shard = mine;
  if (in_place) {
    shard = full.narrow(0, group.rank() * n, n);
    shard.copy_(mine);
  }
  group.all_gather(full, shard);
  expect_elements<T>(full, [&](int64_t i) { return static_cast<T>(value_at(seed, i / n, i % n)); });
}

template <typename T>
void check_reduce_scatter(Group& group, int64_t seed, int64_t n, bool in_place) {
  const int64_t R = group.size(), begin = group.rank() * n;
  const at::Tensor full = filled<T>(seed, group.rank(), R * n);
  const at::Tensor shard = in_place ? full.narrow(0, begin, n) : tensor_of<T>(n);
  group.reduce_scatter(shard, full);
  expect_elements<T>(shard, [&](int64_t i) { return sum_at<T>(seed, R, begin + i); });
  // The rest of `full` is left alone.
  expect_elements<T>(full, [&](int64_t i) {
    const bool reduced = in_place && i >= begin && i < begin + n;
    return reduced ? sum_at<T>(seed, R, i) : static_cast<T>(value_at(seed, group.rank(), i));
  });
}

template <typename T>
void check_all_reduce(Group& group, int64_t seed, int64_t n) {
  const at::Tensor values = filled<T>(seed, group.rank(), n);
  group.all_reduce(values);
  expect_elements<T>(values, [&](int64_t i) { return sum_at<T>(seed, group.size(), i); });
}

void check_small(Group& group, int64_t seed) {
  const int64_t R = group.size();
  EXPECT_EQ(group.all_reduce(value_at(seed, group.rank(), 0)), sum_at<double>(seed, R, 0));
  EXPECT_EQ(group.any(seed % (2 * R) == group.rank()), seed % (2 * R) < R);
  const std::vector<std::string> all =
      group.all_gather_bytes(std::string(static_cast<size_t>(group.rank()), 'x') + "\0!");
  ASSERT_EQ(static_cast<int64_t>(all.size()), R);
  for (int64_t r = 0; r < R; ++r) {
    EXPECT_EQ(all[static_cast<size_t>(r)], std::string(static_cast<size_t>(r), 'x') + "\0!");
  }
}

class Collectives : public testing::TestWithParam<int64_t> {};

TEST_P(Collectives, EqualDirectSumsAndCopiesInPlaceAndOutOfPlace) {
  run_ranks(GetParam(), kTimeout, [](Group& group) {
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
      check_small(group, n + 7);
      group.barrier();
    }
  });
}

// The ranks draw the same plan from the same seed and reach each operation at different times.
TEST_P(Collectives, StayRightInThousandsOfRandomCalls) {
  run_ranks(GetParam(), kTimeout, [](Group& group) {
    std::mt19937_64 plan(17);
    std::mt19937_64 own(static_cast<uint64_t>(group.rank()));
    for (int64_t i = 0; i < 3000 && !testing::Test::HasFailure(); ++i) {
      const auto n = static_cast<int64_t>(plan() % 40);
      const bool in_place = plan() % 2 == 0;
      const auto kind = plan() % 6;
      if (own() % 4 == 0) std::this_thread::yield();
      if (own() % 500 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      if (kind == 0) check_all_gather<float>(group, i, n, in_place);
      if (kind == 1) check_all_gather<double>(group, i, n, in_place);
      if (kind == 2) check_reduce_scatter<float>(group, i, n, in_place);
      if (kind == 3) check_reduce_scatter<double>(group, i, n, in_place);
      if (kind == 4) check_all_reduce<float>(group, i, n);
      if (kind == 5) check_small(group, i);
    }
  });
}

TEST_P(Collectives, GiveEveryRankItsOwnNumber) {
  std::mutex mutex;
  std::set<int64_t> seen;
  run_ranks(GetParam(), kTimeout, [&](Group& group) {
    EXPECT_EQ(group.size(), GetParam());
    const std::lock_guard lock(mutex);
    seen.insert(group.rank());
  });
  EXPECT_EQ(static_cast<int64_t>(seen.size()), GetParam());
  EXPECT_EQ(*seen.begin(), 0);
  EXPECT_EQ(*seen.rbegin(), GetParam() - 1);
}

INSTANTIATE_TEST_SUITE_P(Ranks, Collectives, testing::Values(1, 2, 3, 4, 5));

TEST(Single, IsAGroupOfOne) {
  const std::unique_ptr<Group> group = single();
  EXPECT_EQ(group->rank(), 0);
  EXPECT_EQ(group->size(), 1);
  check_all_gather<float>(*group, 1, 100, false);
  check_reduce_scatter<float>(*group, 2, 100, true);
  group->abort();
  EXPECT_THROW(group->barrier(), Aborted);
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
