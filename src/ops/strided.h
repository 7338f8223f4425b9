// SPDX-License-Identifier: Apache-2.0
// Arguments of kernels and references: pointers with strides, in elements (rows and heads are contiguous), and the mask
// of attention.
#pragma once

#include <cstdint>

namespace hearth::ops {

template <class T>
struct Matrix {
  T* data;
  int64_t rows, cols, stride;
  T* row(int64_t i) const { return data + i * stride; }
};

// [T, N, K] with contiguous K, as rows of K: N of them follow each other in each of T.
template <class T>
struct HeadRows {
  T* data;
  int64_t rows, cols, heads, stride;
  T* row(int64_t i) const { return heads == 1 ? data + i * stride : data + i / heads * stride + i % heads * cols; }
};

// [B, S, N, K]: B sequences, S positions, N heads of width K.
template <class T>
struct HeadTensor {
  T* data;
  int64_t B, S, N, K;
  int64_t stride_b, stride_s, stride_n;
  T* at(int64_t b, int64_t s, int64_t n) const { return data + b * stride_b + s * stride_s + n * stride_n; }
};

// The keys [begin, end) that a query sees, as positions in its sequence. Neither end decreases from a query to the
// next, and there is at least one key.
struct VisibleKeys {
  int32_t begin, end;
};

}  // namespace hearth::ops
