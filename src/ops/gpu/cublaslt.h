// SPDX-License-Identifier: Apache-2.0
// Products that LibTorch does not offer, by cuBLASLt itself: float8 operands with a factor for each row, results in
// float32 that are written or added to. PyTorch's _scaled_mm writes only.
#pragma once

#include <ATen/core/Tensor.h>

namespace hearth::ops {

// out = a b^T, or out += a b^T, on the current stream. M, N, K are multiples of 16; out is contiguous and starts at a
// multiple of 16 bytes. Sums are exact (Float8Sums). Throws Error (kHardware) where cuBLASLt has no such product.
void float8_product_in_float32(const at::Tensor& out_MN, const at::Tensor& a_MK, const at::Tensor& a_scale_M,
                               const at::Tensor& b_NK, const at::Tensor& b_scale_N, bool accumulate);

}  // namespace hearth::ops
