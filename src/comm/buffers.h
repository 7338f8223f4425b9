// SPDX-License-Identifier: Apache-2.0
// Checks of tensors that all implementations of Group share, and copies and sums in plain host memory. Sums go in
// pairs: ((0 + 1) + (2 + 3)) + ((4 + 5) + ...), in the elements' own type, or in float32 for bfloat16. So inputs of
// float32 or float64 may themselves be pairwise sums of 2, 4 or 8 neighbours: the result has the same bits.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace hearth::comm {

// The memory of a contiguous tensor.
struct TensorMemory {
  std::byte* data;
  int64_t numel;
  at::ScalarType type;
  int64_t element_bytes;

  std::byte* at(int64_t element) const { return data + element * element_bytes; }
};

// Checks that the tensor is contiguous; the error names `operation`.
TensorMemory buffer_of(const at::Tensor& tensor, std::string_view operation);
// Also checks that it is on the host.
TensorMemory host_buffer_of(const at::Tensor& tensor, std::string_view operation);

// Checks that full is [size * n] and shard [n], of one type. The shard must not overlap full, or be exactly part `rank`
// of it.
void check_shard(const TensorMemory& full, const TensorMemory& shard, int64_t rank, int64_t size,
                 std::string_view operation);

// The parts of a buffer in an exchange, one for each rank.
struct ExchangeParts {
  std::vector<int64_t> counts, begins;  // elements

  std::byte* at(const TensorMemory& buffer, int64_t rank) const { return buffer.at(begins[static_cast<size_t>(rank)]); }
  int64_t count(int64_t rank) const { return counts[static_cast<size_t>(rank)]; }
};
struct Exchange {
  ExchangeParts to, from;
};
// The parts that the counts describe, or equal parts if both are empty: then `to` and `from` must have one size. Checks
// that the counts fit the buffers, that these have one type, and that they do not overlap.
Exchange exchange_of(const TensorMemory& to, const TensorMemory& from, std::span<const int64_t> to_counts,
                     std::span<const int64_t> from_counts, int64_t size);

// float32, float64 or bfloat16.
void check_summable(const TensorMemory& buffer, std::string_view operation);

// Copies unless both are the same memory. Otherwise they must not overlap.
void copy_elements(std::byte* to, const std::byte* from, int64_t bytes);

// Writes elements [begin, end) of the inputs' sum to out[0 .. end - begin). `out` may be this range of any input.
void sum_elements(std::byte* out, const std::byte* const* inputs, int64_t num_inputs, int64_t begin, int64_t end,
                  at::ScalarType type);

// Needs at least one value.
double sum_in_pairs(std::span<const double> values);

}  // namespace hearth::comm
