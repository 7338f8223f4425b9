// SPDX-License-Identifier: Apache-2.0
// Sums and maxima over the threads of a block. All of them call, together; all get the same bits.
#pragma once

#include "kernels/platform.h"

namespace hearth::kernels {

struct PairOfSums {
  float first, second;
};
__device__ inline PairOfSums shuffle_xor(PairOfSums value, int distance) {
  return {shuffle_xor(value.first, distance), shuffle_xor(value.second, distance)};
}

// op must be commutative: two lanes that exchange values then have the same result.
template <class Value, class Op>
__device__ Value over_block(Value value, const Op& op) {
  for (int distance = lanes() / 2; distance > 0; distance /= 2) value = op(value, shuffle_xor(value, distance));
  const int warps = static_cast<int>(blockDim.x) / lanes();
  if (warps == 1) return value;
  __shared__ Value partial[kMaxThreads / kFewestLanes];
  __syncthreads();  // other threads may still read the previous call's result
  if (threadIdx.x % lanes() == 0) partial[threadIdx.x / lanes()] = value;
  __syncthreads();
  value = partial[0];
  for (int warp = 1; warp < warps; ++warp) value = op(value, partial[warp]);
  return value;
}

template <class Value>
__device__ Value block_sum(Value value) {
  return over_block(value, [](Value a, Value b) { return a + b; });
}
__device__ inline PairOfSums block_sum(PairOfSums value) {
  return over_block(value, [](PairOfSums a, PairOfSums b) {
    return PairOfSums{a.first + b.first, a.second + b.second};
  });
}
template <class Value>
__device__ Value block_max(Value value) {
  return over_block(value, [](Value a, Value b) { return a < b ? b : a; });
}

}  // namespace hearth::kernels
