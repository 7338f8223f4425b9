// SPDX-License-Identifier: Apache-2.0
// Matrix products in 8-bit floating point: E4M3, one factor for each row of an operand (torchao and DeepSeek's reports
// call this rowwise), sums in float32, results in bfloat16. Source of the format: arXiv 2209.05433.
//
// For GPUs that support it (ops/gpu/gpu.h, Gpu::has_float8). M rows, K inputs, N outputs, contiguous; K and N multiples
// of 16. Operands are bfloat16 and are converted here, weights at every use: only bfloat16 is kept.
#pragma once

#include <ATen/core/Tensor.h>

namespace hearth::ops {

// out = a b^T
void matmul_float8(const at::Tensor& out_MN, const at::Tensor& a_MK, const at::Tensor& b_NK);

// dx = dy w
void matmul_input_gradient_float8(const at::Tensor& dx_MK, const at::Tensor& dy_MN, const at::Tensor& w_NK);

}  // namespace hearth::ops
