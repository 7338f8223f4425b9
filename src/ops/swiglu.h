// SPDX-License-Identifier: Apache-2.0
// SwiGLU, a = silu(g) * u with silu(g) = g / (1 + exp(-g)). Source: arXiv 2002.05202.
//
// g and u are the halves of one GEMM's output: gate_up [T, 2F], columns 0..F-1 from w1 and F..2F-1 from w3; a [T, F].
#pragma once

#include <ATen/core/Tensor.h>

namespace hearth::ops {

void swiglu_forward(const at::Tensor& a_TF, const at::Tensor& gate_up_T2F);

// dgate_up may be gate_up itself. If `a` is defined, silu(g) * u is written to it again (cheap recomputation for the
// gradient of w2); a may be da.
void swiglu_backward(const at::Tensor& dgate_up_T2F, const at::Tensor& da_TF, const at::Tensor& gate_up_T2F,
                     const at::Tensor& a_TF = {});

}  // namespace hearth::ops
