// The sum over flat buffers that the gradient norm needs. Contiguous tensors of any shape.
#pragma once

#include <ATen/core/Tensor.h>

namespace hearth::ops {

// sum_1 [1] float64 += the sum of squares: blocks of fixed size, added in order, so the value does not depend on the
// threads. NaN and infinity propagate: a finite global norm proves that every gradient is finite. The global gradient
// norm is sqrt(all_reduce(sum of these)).
void add_sum_of_squares(const at::Tensor& sum_1, const at::Tensor& x);

}  // namespace hearth::ops
