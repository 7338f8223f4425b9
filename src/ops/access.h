// SPDX-License-Identifier: Apache-2.0
// From tensors to checked pointers with strides. Only for the .cpp files of ops/.
#pragma once

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "base/error.h"
#include "ops/strided.h"

namespace hearth::ops {

inline bool is_float32(const at::Tensor& tensor) { return tensor.scalar_type() == at::kFloat; }
inline bool is_float64(const at::Tensor& tensor) { return tensor.scalar_type() == at::kDouble; }

// Calls body(float()), body(double()) or body(c10::BFloat16()): templates get the element type as a type.
template <class Body>
decltype(auto) with_element_type(const at::Tensor& tensor, const Body& body) {
  if (tensor.scalar_type() == at::kFloat) return body(float());
  if (tensor.scalar_type() == at::kBFloat16) return body(c10::BFloat16());
  HEARTH_CHECK(tensor.scalar_type() == at::kDouble, "no kernel for {}", c10::toString(tensor.scalar_type()));
  return body(double());
}

// The type of weight gradients, and of other sums that bfloat16 is too coarse for, if other elements are Value.
template <class Value>
using GradientOf = std::conditional_t<std::is_same_v<Value, double>, double, float>;

// T may be const: then the tensor is only read.
template <class T>
T* data_of(const at::Tensor& tensor) {
  using Value = std::remove_const_t<T>;
  HEARTH_CHECK(tensor.device().is_cpu(), "no kernel for this device");
  HEARTH_CHECK(tensor.scalar_type() == c10::CppTypeToScalarType<Value>::value, "element type is {}, expected {}",
               c10::toString(tensor.scalar_type()), c10::toString(c10::CppTypeToScalarType<Value>::value));
  if constexpr (std::is_const_v<T>) {
    return tensor.const_data_ptr<Value>();
  } else {
    return tensor.mutable_data_ptr<Value>();
  }
}

// All elements of a contiguous tensor; numel must be n.
template <class T>
T* flat(const at::Tensor& tensor, int64_t n) {
  HEARTH_CHECK(tensor.is_contiguous() && tensor.numel() == n, "expected {} contiguous elements, got {}", n,
               tensor.numel());
  return data_of<T>(tensor);
}

// [rows, cols] with contiguous rows.
template <class T>
Matrix<T> matrix(const at::Tensor& tensor, int64_t rows, int64_t cols) {
  HEARTH_CHECK(tensor.dim() == 2 && tensor.size(0) == rows && tensor.size(1) == cols, "expected [{}, {}]", rows, cols);
  HEARTH_CHECK(cols <= 1 || tensor.stride(1) == 1, "rows are not contiguous");
  return {data_of<T>(tensor), rows, cols, tensor.stride(0)};
}

// [rows, cols] or [rows / N, N, cols], with contiguous rows, and without gaps between the N.
template <class T>
HeadRows<T> head_rows(const at::Tensor& tensor, int64_t rows, int64_t cols) {
  if (tensor.dim() == 2) {
    const Matrix<T> all = matrix<T>(tensor, rows, cols);
    return {all.data, rows, cols, 1, all.stride};
  }
  HEARTH_CHECK(tensor.dim() == 3 && tensor.size(0) * tensor.size(1) == rows && tensor.size(2) == cols,
               "expected [{}, {}] as heads", rows, cols);
  HEARTH_CHECK(tensor.stride(2) == 1 && tensor.stride(1) == cols, "heads are not next to each other");
  return {data_of<T>(tensor), rows, cols, tensor.size(1), tensor.stride(0)};
}

// [B, S, N, K] with contiguous K.
template <class T>
HeadTensor<T> heads(const at::Tensor& tensor) {
  HEARTH_CHECK(tensor.dim() == 4, "expected [B, S, N, K], got {} dimensions", tensor.dim());
  HEARTH_CHECK(tensor.size(3) <= 1 || tensor.stride(3) == 1, "heads are not contiguous");
  return {data_of<T>(tensor), tensor.size(0),   tensor.size(1),   tensor.size(2),
          tensor.size(3),     tensor.stride(0), tensor.stride(1), tensor.stride(2)};
}

// Runs body(begin, end) over [0, n) on the pool. `cost` is the number of elements that one item touches. Little work
// stays in the calling thread: waking the pool costs about as much as 16k elements. The cuts depend on the number of
// threads, so a body's results must not depend on them.
template <class Body>
void parallel(int64_t n, int64_t cost, const Body& body) {
  at::parallel_for(0, n, std::max<int64_t>(1, 16384 / std::max<int64_t>(1, cost)), body);
}

}  // namespace hearth::ops
