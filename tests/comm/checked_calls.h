// SPDX-License-Identifier: Apache-2.0
// Calls of a group, each compared with the sum or copy that a rank computes by itself: every rank knows every rank's
// input. Tensors are on the calling thread's `tensors_device`.
#pragma once

#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <numeric>
#include <vector>

#include "comm/group.h"

namespace hearth::comm {

inline thread_local at::Device tensors_device = at::kCPU;

// Element `index` of rank `rank`'s input. It is not a round number, so the order of a float32 sum shows.
inline double value_at(int64_t seed, int64_t rank, int64_t index) {
  auto x = static_cast<uint64_t>(seed * 1000003 + rank * 31 + index) * 0x9E3779B97F4A7C15u;  // SplitMix64
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return static_cast<double>((x ^ (x >> 31)) >> 11) * 0x1p-52 - 1;
}

// The nearest T. c10::BFloat16 is made of float only.
template <typename T>
T nearest(double value) {
  if constexpr (std::is_same_v<T, c10::BFloat16>) {
    return static_cast<T>(static_cast<float>(value));
  } else {
    return static_cast<T>(value);
  }
}

template <typename T>
at::Tensor tensor_of(int64_t numel) {
  return at::empty({numel}, at::TensorOptions().dtype(c10::CppTypeToScalarType<T>::value).device(tensors_device));
}

template <typename T>
at::Tensor filled(int64_t seed, int64_t rank, int64_t numel) {
  const at::Tensor host = at::empty({numel}, at::TensorOptions().dtype(c10::CppTypeToScalarType<T>::value));
  for (int64_t i = 0; i < numel; ++i) host.mutable_data_ptr<T>()[i] = nearest<T>(value_at(seed, rank, i));
  return host.to(tensors_device);
}

// ((x_0 + x_1) + (x_2 + x_3)) + ..., written out: neighbours are added until one number is left; one without a
// neighbour waits.
template <typename T>
T pairwise(std::vector<T> sums) {
  while (sums.size() > 1) {
    for (size_t i = 0; i + 1 < sums.size(); ++i) {
      sums[i] += sums[i + 1];
      sums.erase(sums.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    }
  }
  return sums.front();
}

// The same over ranks, in T.
template <typename T>
T sum_at(int64_t seed, int64_t ranks, int64_t index) {
  std::vector<T> numbers;
  for (int64_t r = 0; r < ranks; ++r) numbers.push_back(static_cast<T>(value_at(seed, r, index)));
  return pairwise(numbers);
}

template <typename T>
void expect_elements(const at::Tensor& tensor, const std::function<T(int64_t)>& expected) {
  const at::Tensor host = tensor.to(at::kCPU);
  for (int64_t i = 0; i < tensor.numel(); ++i) {
    ASSERT_EQ(host.const_data_ptr<T>()[i], expected(i)) << "element " << i << " of " << tensor.numel();
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

template <typename T>
void check_all_to_all(Group& group, int64_t seed, int64_t n) {
  const int64_t rank = group.rank();
  const at::Tensor to = tensor_of<T>(group.size() * n);
  group.all_to_all(to, filled<T>(seed, rank, group.size() * n));
  expect_elements<T>(to, [&](int64_t i) { return static_cast<T>(value_at(seed, i / n, rank * n + i % n)); });
}

// Rank r sends rank s (7 r + 3 s + seed) modulo 5 shares of n elements: often none, and never the same to all.
template <typename T>
void check_unequal_all_to_all(Group& group, int64_t seed, int64_t n) {
  const int64_t R = group.size(), rank = group.rank();
  const auto count = [&](int64_t from, int64_t to) { return (7 * from + 3 * to + seed) % 5 * n; };
  const auto begin = [&](int64_t from, int64_t to) {
    int64_t before = 0;
    for (int64_t r = 0; r < to; ++r) before += count(from, r);
    return before;
  };
  std::vector<int64_t> sent, received;
  for (int64_t r = 0; r < R; ++r) sent.push_back(count(rank, r)), received.push_back(count(r, rank));
  const int64_t all = std::accumulate(received.begin(), received.end(), int64_t{0});
  const at::Tensor to = tensor_of<T>(all);
  group.all_to_all(to, filled<T>(seed, rank, begin(rank, R)), {received, sent});
  std::vector<T> expected;
  for (int64_t r = 0; r < R; ++r)
    for (int64_t i = 0; i < count(r, rank); ++i)
      expected.push_back(static_cast<T>(value_at(seed, r, begin(r, rank) + i)));
  expect_elements<T>(to, [&](int64_t i) { return expected[static_cast<size_t>(i)]; });
}

// Each rank sends to its successors one after the other, and receives from its predecessors in the same order.
template <typename T>
void check_transfers(Group& group, int64_t seed, int64_t n) {
  const int64_t R = group.size(), rank = group.rank();
  for (int64_t distance = 1; distance < R; ++distance) {
    const int64_t from = (rank + R - distance) % R;
    const at::Tensor received = tensor_of<T>(n), sent = filled<T>(seed, rank, n);
    const auto send = [&] { group.send(sent, (rank + distance) % R); };
    const auto recv = [&] { group.recv(received, from); };
    const bool sends_first = rank / std::gcd(distance, R) % 2 == 0;  // of any circle of ranks, one sends first
    sends_first ? (send(), recv()) : (recv(), send());
    expect_elements<T>(received, [&](int64_t i) { return nearest<T>(value_at(seed, from, i)); });
  }
}

// bfloat16 is added in float32 and rounded once.
inline void check_bfloat16(Group& group, int64_t seed, int64_t n) {
  const auto rounded = [&](int64_t rank, int64_t i) { return nearest<c10::BFloat16>(value_at(seed, rank, i)); };
  const auto sum = [&](int64_t i) {
    std::vector<float> sums;
    for (int64_t r = 0; r < group.size(); ++r) sums.push_back(static_cast<float>(rounded(r, i)));
    return static_cast<c10::BFloat16>(pairwise(sums));
  };
  const at::Tensor full = filled<c10::BFloat16>(seed, group.rank(), group.size() * n);
  const at::Tensor shard = tensor_of<c10::BFloat16>(n);
  group.reduce_scatter(shard, full);
  expect_elements<c10::BFloat16>(shard, [&](int64_t i) { return sum(group.rank() * n + i); });
  group.all_reduce(full);
  expect_elements<c10::BFloat16>(full, sum);
}

}  // namespace hearth::comm
