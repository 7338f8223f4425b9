// SPDX-License-Identifier: Apache-2.0
// The three products of a linear layer y = x w^T, with weights as stored on disk, [out, in].
//
// M rows (tokens), K inputs, N outputs. All operands are 2-D views whose last dimension is contiguous (rows may be
// strided), so columns of a packed buffer are written in place.
//
// float32 and bfloat16, results of at least 4 rows and 4 columns, on an x86 CPU with AVX2, in bfloat16 without AMX: the
// product of gemm.h, the same bits for any number of threads. Otherwise: ATen's, by MKL or oneDNN. No choice depends on
// a measured time: it is always the same on one machine.
#pragma once

#include <ATen/core/Tensor.h>

namespace hearth::ops {

// out = a b^T
void matmul(const at::Tensor& out_MN, const at::Tensor& a_MK, const at::Tensor& b_NK);

// dx = dy w, or dx += dy w
void matmul_input_gradient(const at::Tensor& dx_MK, const at::Tensor& dy_MN, const at::Tensor& w_NK, bool accumulate);

// dw = dy^T x, or dw += dy^T x, in the flat gradient buffer. With bfloat16 dw is float32. ATen's product on a CPU is
// rounded to bfloat16 before it is written or added. Without accumulate dw is not read.
void matmul_weight_gradient(const at::Tensor& dw_NK, const at::Tensor& dy_MN, const at::Tensor& x_MK, bool accumulate);

// The same by ATen's products, on any machine.
namespace aten {
void matmul(const at::Tensor& out_MN, const at::Tensor& a_MK, const at::Tensor& b_NK);
void matmul_input_gradient(const at::Tensor& dx_MK, const at::Tensor& dy_MN, const at::Tensor& w_NK, bool accumulate);
void matmul_weight_gradient(const at::Tensor& dw_NK, const at::Tensor& dy_MN, const at::Tensor& x_MK, bool accumulate);
}  // namespace aten

}  // namespace hearth::ops
