// Sums and scalings of flat buffers: gradient norm, averaging, accumulation. Contiguous tensors of any shape.
#pragma once

#include <ATen/core/Tensor.h>

namespace hearth::ops {

// Sum of squares in double: blocks of fixed size, added in order, so the value does not depend on the threads. NaN and
// infinity come through. The global gradient norm is sqrt(all_reduce(sum of these)).
double sum_of_squares(const at::Tensor& x);

// True if no element is NaN or infinite.
bool all_finite(const at::Tensor& x);

void scale_(const at::Tensor& x, double factor);          // x *= factor
void add_(const at::Tensor& dst, const at::Tensor& src);  // dst += src, same shape

}  // namespace hearth::ops
