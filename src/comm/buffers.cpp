// SPDX-License-Identifier: Apache-2.0
#include "comm/buffers.h"

#include <c10/util/BFloat16.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/error.h"

namespace hearth::comm {

namespace {

// A block fits in the first-level cache. It is summed completely before it is written, so `out` may be one of the
// inputs.
constexpr int64_t kBlock = 1024;

// In the pairwise sum of n > 1 numbers: how many are in the left operand of the last addition.
int64_t left_of(int64_t n) { return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(n - 1))); }

// total[i] = the sum of inputs[k][at + i], k = 0 .. n - 1, in pairs. T: the elements; Sum: the type of the addition.
template <typename T, typename Sum>
void sum_block(Sum* total, const std::byte* const* inputs, int64_t n, int64_t at, int64_t count) {
  if (n == 1) {
    const T* input = reinterpret_cast<const T*>(inputs[0]) + at;
    for (int64_t i = 0; i < count; ++i) total[i] = static_cast<Sum>(input[i]);
    return;
  }
  Sum right[kBlock];
  sum_block<T>(total, inputs, left_of(n), at, count);
  sum_block<T>(right, inputs + left_of(n), n - left_of(n), at, count);
  for (int64_t i = 0; i < count; ++i) total[i] += right[i];
}

template <typename T, typename Sum = T>
void sum(std::byte* out, const std::byte* const* inputs, int64_t num_inputs, int64_t begin, int64_t end) {
  Sum total[kBlock];
  for (int64_t at = begin; at < end; at += kBlock) {
    const int64_t count = std::min(kBlock, end - at);
    sum_block<T>(total, inputs, num_inputs, at, count);
    T* to = reinterpret_cast<T*>(out) + (at - begin);
    for (int64_t i = 0; i < count; ++i) to[i] = static_cast<T>(total[i]);
  }
}

}  // namespace

TensorMemory buffer_of(const at::Tensor& tensor, std::string_view operation) {
  HEARTH_CHECK(tensor.defined() && tensor.is_contiguous(), "{} wants contiguous tensors", operation);
  // data_ptr of an empty tensor may be null, which is harmless because nothing is read.
  return {static_cast<std::byte*>(tensor.data_ptr()), tensor.numel(), tensor.scalar_type(),
          static_cast<int64_t>(tensor.element_size())};
}

TensorMemory host_buffer_of(const at::Tensor& tensor, std::string_view operation) {
  HEARTH_CHECK(tensor.is_cpu(), "{} wants host tensors", operation);
  return buffer_of(tensor, operation);
}

void check_shard(const TensorMemory& full, const TensorMemory& shard, int64_t rank, int64_t size,
                 std::string_view operation) {
  HEARTH_CHECK(full.type == shard.type, "{}: full and shard are of two types", operation);
  HEARTH_CHECK(full.numel == size * shard.numel, "{}: full has {} elements, {} shards of {} were expected", operation,
               full.numel, size, shard.numel);
  if (shard.numel == 0) return;
  const std::byte* shard_end = shard.at(shard.numel);
  const bool apart = shard_end <= full.data || shard.data >= full.at(full.numel);
  HEARTH_CHECK(apart || shard.data == full.at(rank * shard.numel), "{}: shard is inside full, but is not its part {}",
               operation, rank);
}

namespace {

ExchangeParts parts_of(const TensorMemory& buffer, std::span<const int64_t> counts, int64_t size) {
  ExchangeParts parts{{counts.begin(), counts.end()}, {}};
  if (counts.empty()) parts.counts.assign(static_cast<size_t>(size), buffer.numel / size);
  int64_t end = 0;
  for (const int64_t count : parts.counts) {
    HEARTH_CHECK(count >= 0, "all_to_all: a part of {} elements", count);
    parts.begins.push_back(end);
    end += count;
  }
  HEARTH_CHECK(std::ssize(parts.counts) == size && end == buffer.numel,
               "all_to_all: {} parts with {} elements in a tensor of {}, for {} ranks", parts.counts.size(), end,
               buffer.numel, size);
  return parts;
}

}  // namespace

Exchange exchange_of(const TensorMemory& to, const TensorMemory& from, std::span<const int64_t> to_counts,
                     std::span<const int64_t> from_counts, int64_t size) {
  HEARTH_CHECK(to.type == from.type, "all_to_all: tensors of two types");
  HEARTH_CHECK(to_counts.empty() == from_counts.empty(), "all_to_all: counts of one side only");
  HEARTH_CHECK(!to_counts.empty() || to.numel == from.numel, "all_to_all: {} elements to {}", from.numel, to.numel);
  HEARTH_CHECK(to.numel == 0 || from.numel == 0 || to.at(to.numel) <= from.data || to.data >= from.at(from.numel),
               "all_to_all: the two overlap");
  return {parts_of(to, to_counts, size), parts_of(from, from_counts, size)};
}

void check_summable(const TensorMemory& buffer, std::string_view operation) {
  HEARTH_CHECK(buffer.type == at::kFloat || buffer.type == at::kDouble || buffer.type == at::kBFloat16,
               "{} adds float32, float64 or bfloat16 only", operation);
}

void copy_elements(std::byte* to, const std::byte* from, int64_t bytes) {
  if (to != from && bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
}

void sum_elements(std::byte* out, const std::byte* const* inputs, int64_t num_inputs, int64_t begin, int64_t end,
                  at::ScalarType type) {
  if (type == at::kDouble) {
    sum<double>(out, inputs, num_inputs, begin, end);
  } else if (type == at::kBFloat16) {
    sum<c10::BFloat16, float>(out, inputs, num_inputs, begin, end);
  } else {
    sum<float>(out, inputs, num_inputs, begin, end);
  }
}

double sum_in_pairs(std::span<const double> values) {
  if (values.size() == 1) return values.front();
  const auto left = static_cast<size_t>(left_of(static_cast<int64_t>(values.size())));
  return sum_in_pairs(values.first(left)) + sum_in_pairs(values.subspan(left));
}

}  // namespace hearth::comm
