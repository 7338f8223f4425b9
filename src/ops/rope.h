// Rotary position embedding, interleaved pairs (Meta's convention): elements (2i, 2i+1) of a head are a complex number,
// multiplied by exp(i * position * theta^(-2i/K)). Source: arXiv 2104.09864.
//
// Works in place on any strided [B, S, N, K] view: the first N = H+G heads of a packed QKV buffer [B*S, (H+2G)*K] are
// qkv.view({B, S, H+2*G, K}).narrow(2, 0, H+G).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "base/dtype.h"

namespace hearth::ops {

// [S, K]: row p holds (cos, sin) of pair 0, of pair 1, ... for position p. Computed in double, then rounded.
at::Tensor rope_table(int64_t S, int64_t K, double theta, DType dtype);

// Rotates x in place. Position s of x is row start + s of the table (start > 0: decoding behind a KV cache).
void rope_forward(const at::Tensor& x_BSNK, const at::Tensor& table_SK, int64_t start = 0);

// The gradient, in place: the inverse rotation.
void rope_backward(const at::Tensor& dx_BSNK, const at::Tensor& table_SK, int64_t start = 0);

}  // namespace hearth::ops
