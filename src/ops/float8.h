// SPDX-License-Identifier: Apache-2.0
// The three products of a linear layer in 8-bit floating point: E4M3, with one factor for each row of an operand; sums
// run along the rows (torchao calls this rowwise). Sums are fast forward and exact for gradients (ops/gpu/gpu.h,
// Float8Sums), as in torchao and Transformer Engine. Source of the format: arXiv 2209.05433.
//
// For GPUs that support it (ops/gpu/gpu.h, Gpu::has_float8). M rows (tokens), K inputs, N outputs, contiguous; all
// multiples of 16, M only for the weight's gradient. Operands are bfloat16 and are converted here, at every use: only
// bfloat16 is kept.
#pragma once

#include <ATen/core/Tensor.h>

namespace hearth::ops {

// What a product sums along: rows of float8, [rows, depth], and the factor of each row.
struct Float8Operand {
  at::Tensor values, scale;
};
// The rows of x [R, C], and its columns as rows.
Float8Operand float8_rows(const at::Tensor& x_RC);
Float8Operand float8_columns(const at::Tensor& x_RC);
// Both, with the same bits, faster than one after the other.
struct Float8Operands {
  Float8Operand rows, columns;
};
Float8Operands float8_rows_and_columns(const at::Tensor& x_RC);

// out = a b^T
void matmul_float8(const at::Tensor& out_MN, const at::Tensor& a_MK, const at::Tensor& b_NK);

// dx = dy w
void matmul_input_gradient_float8(const at::Tensor& dx_MK, const at::Tensor& dy_MN, const at::Tensor& w_NK);

// dw = dy^T x, or dw += dy^T x, with float32 dw: nothing is rounded between the product and the sum. Only where
// Gpu::has_float8_sums.
void matmul_weight_gradient_float8(const at::Tensor& dw_NK, const at::Tensor& dy_MN, const at::Tensor& x_MK,
                                   bool accumulate);

// Both gradients. dy is converted once.
void matmul_gradients_float8(const at::Tensor& dx_MK, const at::Tensor& dw_NK, const at::Tensor& dy_MN,
                             const at::Tensor& x_MK, const at::Tensor& w_NK, bool accumulate);

}  // namespace hearth::ops
