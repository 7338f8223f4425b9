// SPDX-License-Identifier: Apache-2.0
// Rotary position embedding: a pair of elements of a head is a complex number, multiplied by exp(i * position * w).
// Source: arXiv 2104.09864. Pair i is (2i, 2i+1), Meta's convention, or (i, i + K/2), the convention of GPT-NeoX and
// Hugging Face. w = theta^(-2i/K), scaled as plan::Rope says: Llama 3.1 (meta-llama/llama-models, apply_scaling), YaRN
// (arXiv 2309.00071), longrope (arXiv 2402.13753). If R of K elements rotate, the first ones, K is R in all of this.
//
// Works in place on any strided [B, S, N, K] view: the first N = H+G heads of a packed QKV buffer [B*S, (H+2G)*K] are
// qkv.view({B, S, H+2*G, K}).narrow(2, 0, H+G).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "base/dtype.h"
#include "plan/context_parallel.h"
#include "plan/parameters.h"

namespace hearth::ops {

// [R/2]: w of each pair in sequences of S positions.
std::vector<double> rope_frequencies(const plan::Rope& rope, int64_t K, int64_t S);

// [S, R]: row p holds (cos, sin) of pair 0, of pair 1, ... for position p; with halves all cosines, then all sines.
// Both are times Rope::attention_factor. Computed in double, then rounded to float32 unless dtype is float64: bfloat16
// heads are rotated by float32 angles.
// The tables of keys and of queries are one tensor, unless queries are scaled by their positions.
struct RopeTables {
  at::Tensor heads_SR, queries_SR;
};
// The queries' rows are times 1 + query_position_scale * ln(1 + floor(p / original_seq_len)), too, which is how
// Ministral 3 scales rotated queries. `length`: of the sequences, which decides whether longrope's long factors hold.
RopeTables rope_tables(int64_t S, int64_t length, int64_t K, const plan::Rope& rope, DType dtype,
                       at::Device device = at::kCPU);

// Rotates x in place. Its row s is at position positions.position(s) of its sequence, and uses that row of the table.
// (After a KV cache `first` is the number of cached rows.) `halves`: as for the table. `document_starts_N` (if
// defined): int32, ascending, places in [B*S] where positions begin again at 0. It includes each sequence's first
// place. If x has a part of the positions, the table still has S rows, for whole sequences. A head's elements
// beyond the table's R columns stay as they are.
void rope_forward(const at::Tensor& x_BSNK, const at::Tensor& table_SR, bool halves,
                  const at::Tensor& document_starts_N = {}, const plan::Chunks& positions = {});

// The gradient, in place: the inverse rotation, times the same factors.
void rope_backward(const at::Tensor& dx_BSNK, const at::Tensor& table_SR, bool halves,
                   const at::Tensor& document_starts_N = {}, const plan::Chunks& positions = {});

}  // namespace hearth::ops
