// What every implementation of Group asks of its tensors, and the copies and sums over plain host memory.
// Sums go in pairs, in the elements' own type: ((0 + 1) + (2 + 3)) + ((4 + 5) + ...). What 2, 4 or 8 neighbours have
// summed up in pairs already can so be one of the inputs, and the result is the same to the bit.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace hearth::comm {

// A contiguous tensor, seen as bytes.
struct Buffer {
  std::byte* data;
  int64_t numel;
  at::ScalarType type;
  int64_t element_bytes;

  std::byte* at(int64_t element) const { return data + element * element_bytes; }
};

// Checks that the tensor is contiguous; `operation` goes into the message.
Buffer buffer_of(const at::Tensor& tensor, std::string_view operation);
// And that it lies on the host.
Buffer host_buffer_of(const at::Tensor& tensor, std::string_view operation);

// Checks that full is [size * n] for shard [n], of one type, and that shard is either apart from full or exactly its
// part `rank`.
void check_shard(const Buffer& full, const Buffer& shard, int64_t rank, int64_t size, std::string_view operation);

// float32 or float64.
void check_summable(const Buffer& buffer, std::string_view operation);

// Copies unless the two are the same memory. They must not overlap otherwise.
void copy_elements(std::byte* to, const std::byte* from, int64_t bytes);

// Elements [begin, end) of the inputs' sum, written to out[0 .. end - begin). `out` may be
// any of the inputs' own range.
void sum_elements(std::byte* out, const std::byte* const* inputs, int64_t num_inputs, int64_t begin, int64_t end,
                  at::ScalarType type);

// At least one.
double sum_in_pairs(std::span<const double> values);

}  // namespace hearth::comm
