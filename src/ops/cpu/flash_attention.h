// SPDX-License-Identifier: Apache-2.0
// Attention in tiles that stay in the caches, without a whole score matrix: FlashAttention-2, arXiv 2307.08691. For
// attention.cpp, which checks shapes. T is float or c10::BFloat16; sums are float32.
//
// Scores are kept transposed: keys down, queries across the vectors. A query's softmax is then a column, and no step of
// it sums over a vector's lanes. The shape alone decides where work is cut, and partial sums are added in order, so
// results do not depend on the number of threads.
#pragma once

#include <c10/util/BFloat16.h>

#include <cstdint>

#include "ops/strided.h"

namespace hearth::ops {

template <class T>
struct FlashForward {
  HeadTensor<T> out;            // [B, Q, H, K]
  float* lse;                   // [B, H, Q]
  HeadTensor<const T> q, k, v;  // [B, Q, H, K], [B, S, G, K]
  const VisibleKeys* visible;   // [B, Q]
  float scale;                  // of the scores; 0: 1 / sqrt(K)
};

template <class T>
struct FlashBackward {
  HeadTensor<T> dq, dk, dv;
  HeadTensor<const T> dout, out;
  const float* lse;  // [B, H, Q]
  HeadTensor<const T> q, k, v;
  const VisibleKeys* visible;  // [B, Q]
  float scale;                 // as in forward
};

void flash_forward(const FlashForward<float>& t);
void flash_forward(const FlashForward<c10::BFloat16>& t);
void flash_backward(const FlashBackward<float>& t);
void flash_backward(const FlashBackward<c10::BFloat16>& t);

}  // namespace hearth::ops
