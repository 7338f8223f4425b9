// SPDX-License-Identifier: Apache-2.0
// Gathers and scatters rows of a matrix: the LM head then computes only the positions that count. Adds one vector, a
// bias, to all rows.
#pragma once

#include <ATen/core/Tensor.h>

namespace hearth::ops {

// out[n] = x[index[n]] along the first dimension; out has index's length. index: int64 [N], within x.
void gather_rows(const at::Tensor& out, const at::Tensor& x, const at::Tensor& index_N);

// The same into a new tensor, for example for labels.
at::Tensor gathered(const at::Tensor& x, const at::Tensor& index_N);

// x[index[n]] = rows[n]; the indices are distinct. Other rows of x keep their values.
void scatter_rows(const at::Tensor& x, const at::Tensor& rows, const at::Tensor& index_N);

// y [T, N] += bias [N], in each row. Added in float32 or wider, and rounded once.
void add_bias(const at::Tensor& y_TN, const at::Tensor& bias_N);

// dbias [N] += the sum of the rows of dy [T, N]. With bfloat16 rows dbias is float32. Blocks of rows have fixed sizes
// and are added in order, so the bits do not depend on the number of threads.
void bias_gradient(const at::Tensor& dbias_N, const at::Tensor& dy_TN);

}  // namespace hearth::ops
