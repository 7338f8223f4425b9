// Some rows of a matrix, and back: what lets the LM head work on the positions that count alone.
#pragma once

#include <ATen/core/Tensor.h>

namespace hearth::ops {

// out[n] = x[index[n]] along the first dimension; out has index's length. index: int64 [N], within x.
void gather_rows(const at::Tensor& out, const at::Tensor& x, const at::Tensor& index_N);

// The same into a new tensor: for labels and the like.
at::Tensor gathered(const at::Tensor& x, const at::Tensor& index_N);

// x[index[n]] = rows[n]; the indices differ from each other. Other rows of x stay.
void scatter_rows(const at::Tensor& x, const at::Tensor& rows, const at::Tensor& index_N);

}  // namespace hearth::ops
