// Gathers and scatters rows of a matrix: the LM head then computes only the positions that count.
#pragma once

#include <ATen/core/Tensor.h>

namespace hearth::ops {

// out[n] = x[index[n]] along the first dimension; out has index's length. index: int64 [N], within x.
void gather_rows(const at::Tensor& out, const at::Tensor& x, const at::Tensor& index_N);

// The same into a new tensor, for example for labels.
at::Tensor gathered(const at::Tensor& x, const at::Tensor& index_N);

// x[index[n]] = rows[n]; the indices are distinct. Other rows of x keep their values.
void scatter_rows(const at::Tensor& x, const at::Tensor& rows, const at::Tensor& index_N);

}  // namespace hearth::ops
