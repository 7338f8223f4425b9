// SPDX-License-Identifier: Apache-2.0
// The sum over flat buffers that the gradient norm needs. Contiguous tensors of any shape.
#pragma once

#include <ATen/core/Tensor.h>

namespace hearth::ops {

// sum_1 [1] float64 += the sum of squares: blocks of fixed size, added in order, so the value does not depend on the
// threads. NaN and infinity propagate: a finite global norm proves that every gradient is finite. The global gradient
// norm is sqrt(all_reduce(sum of these)).
void add_sum_of_squares(const at::Tensor& sum_1, const at::Tensor& x);

// The elements of one of the sums below.
inline constexpr int64_t kSumBlock = 256;
// sums_N [ceil(x.numel() / kSumBlock)] float64 = the sum of squares of each block of x. So the sum over a tensor may be
// cut at any multiple of kSumBlock: add_in_order of all blocks has the same bits.
void block_sums_of_squares(const at::Tensor& sums_N, const at::Tensor& x);
// sum_1 [1] float64 += the sum of the values, float64, in a fixed order.
void add_in_order(const at::Tensor& sum_1, const at::Tensor& values_N);

}  // namespace hearth::ops
