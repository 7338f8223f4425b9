// SPDX-License-Identifier: Apache-2.0
// at::Tensor values for the folders above: making them, access to their bytes, and an arena with one step's memory.
//
// Rules of this folder (they hold for every header in ops/):
// - ops/ alone includes ATen/ops/...; above it a tensor is a value. Its methods that only make views (.view, .narrow,
//   .select, .transpose, .t, .sizes, .stride, .data_ptr) need no such include and may be used anywhere.
// - Every function writes into tensors of the caller and keeps no reference. Outputs come first or are marked by a
//   trailing comment. They must not overlap inputs unless the comment says so.
// - Types: float32 and bfloat16 (vector kernels), and float64 (the plain templates of ops/reference.h), chosen by the
//   tensors' own dtype; all floating tensors of one call share it unless said otherwise. Other types are our bug
//   (HEARTH_CHECK).
// - Results depend on the inputs and the shapes only, bit for bit: work is cut at fixed places, never by the
//   number of threads. The exception is matmul where it goes through ATen (matmul.h): the BLAS's own partition is
//   bitwise repeatable for one machine type and one number of threads.
// - Call under c10::InferenceMode (or with gradients off). Rows may be strided; the last dimension is contiguous.
// - Tensors of one call are on one device. On a GPU (ops/gpu/gpu.h) calls only enqueue, and kernels take float32 and
//   bfloat16.
// - All calls are Local.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/dtype.h"

namespace hearth::ops {

at::ScalarType scalar_type(DType dtype);
DType dtype_of(const at::Tensor& tensor);

// Contiguous tensors. `shape` may be a braced list or a vector<int64_t>.
at::Tensor empty(at::IntArrayRef shape, DType dtype, at::Device device = at::kCPU);
at::Tensor zeros(at::IntArrayRef shape, DType dtype, at::Device device = at::kCPU);

// A view of `shape` into the 1-D contiguous `flat`, from element `offset` on; shares memory.
at::Tensor view_as(const at::Tensor& flat, int64_t offset, at::IntArrayRef shape);

// The same with `dtype` in bytes [N] uint8, from byte `offset_bytes` on.
at::Tensor view_as(const at::Tensor& bytes, int64_t offset_bytes, at::IntArrayRef shape, DType dtype);

// Copies host values into a new 1-D tensor. For a GPU it does not wait: the copy goes through pinned memory.
at::Tensor from_int32(std::span<const int32_t> values, at::Device device = at::kCPU);
at::Tensor from_int64(std::span<const int64_t> values, at::Device device = at::kCPU);
at::Tensor from_float32(std::span<const float> values, at::Device device = at::kCPU);
at::Tensor from_float64(std::span<const double> values, at::Device device = at::kCPU);
at::Tensor from_bytes(std::span<const std::byte> values, at::Device device = at::kCPU);

// The elements of a tensor of any floating type, or of int64, in row-major order. Waits for a GPU.
std::vector<double> to_doubles(const at::Tensor& tensor);
std::vector<int64_t> to_int64s(const at::Tensor& tensor);

// dst = src, of the same shape; converts between types. Any strides.
void copy_(const at::Tensor& dst, const at::Tensor& src);
void zero_(const at::Tensor& dst);
// dst [.., .., 1, ..] = the sum of src over its third dimension, added in float32 or wider. Any strides.
void sum_copies(const at::Tensor& dst, const at::Tensor& src);
// dst += src, of one type and shape.
void add_(const at::Tensor& dst, const at::Tensor& src);

// dst = factor src, of one type and shape. dst may be src. A bfloat16 product is rounded once.
void scale(const at::Tensor& dst, const at::Tensor& src, double factor);
// matrix[i, :] *= factors[i], of one type.
void scale_rows_(const at::Tensor& matrix, const at::Tensor& factors);

// The tensor itself if it is on this device, else a copy. A copy from a GPU waits.
at::Tensor on_device(const at::Tensor& tensor, at::Device device);
at::Tensor on_host(const at::Tensor& tensor);

// The memory of a contiguous host tensor.
std::span<std::byte> bytes_of(const at::Tensor& tensor);

// One allocation that hands out tensors at rising offsets: a step then allocates nothing. The memory starts at a
// multiple of 2 MiB and asks for huge pages. Tensors stay valid (they share the storage) after the arena is destroyed.
class Arena {
 public:
  explicit Arena(int64_t capacity_bytes, at::Device device = at::kCPU);
  // Host memory for copies of tensors of `device`: pinned where that is a GPU.
  static Arena host_memory_for(at::Device device, int64_t capacity_bytes);

  // A contiguous tensor, 64-byte aligned, contents undefined (zero on first use). Asserts that it fits.
  at::Tensor take(at::IntArrayRef shape, DType dtype);
  // The bytes that take() of this shape adds to used(): for planning the capacity.
  static int64_t bytes_for(at::IntArrayRef shape, DType dtype);

  int64_t used() const { return used_; }
  int64_t capacity() const { return capacity_; }
  // Gives back everything taken since used() was `mark`: its tensors alias those taken from now on.
  void rewind(int64_t mark);

 private:
  explicit Arena(at::Tensor bytes) : bytes_(std::move(bytes)), capacity_(bytes_.numel()) {}
  at::Tensor bytes_;  // [capacity] uint8
  int64_t capacity_ = 0, used_ = 0;
};

}  // namespace hearth::ops
