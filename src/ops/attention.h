// SPDX-License-Identifier: Apache-2.0
// Scaled dot-product attention with grouped queries: softmax(scale q k^T) v, where a scale of 0 stands for 1 / sqrt(K).
// Query head h reads key/value head h / (H/G). K and V are never copied to all heads. float32 and bfloat16 (sums and
// softmax in float32) run the tiled kernels of flash_attention.h, float64 the plain reference. Only scratch memory is
// allocated, and kept.
//
// q, out [B, Q, H, K] and k, v [B, S, G, K] are any strided views with contiguous K, such as slices of a packed QKV
// buffer. Q is S, or less where the queries are a part of the sequences.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "plan/context_parallel.h"

namespace hearth::ops {

// The keys that a query sees: all of its own document, or (causal) those up to its own position; with `reach` those at
// most so many positions away. A kernel's time falls with the keys that are seen.
struct AttentionMask {
  bool causal = true;
  // Beginnings of documents: int32 offsets into [B*S], ascending, each row's first place included. Undefined: a row is
  // one document.
  at::Tensor document_starts_N = {};
  int64_t longest_document = 0;  // no document is longer; 0: a row's length. GPU kernels are faster with it
  plan::Chunks queries = {};     // the positions of the Q queries in each sequence
  int64_t reach = -1;            // -1: all
};

// out may be any strided view, usually [B*Q, H*K] seen as [B, Q, H, K]. lse [B, H, Q], contiguous, is the log of the
// softmax denominators, which backward needs: float64 with float64, else float32.
void attention_forward(const at::Tensor& out_BQHK, const at::Tensor& lse_BHQ, const at::Tensor& q_BQHK,
                       const at::Tensor& k_BSGK, const at::Tensor& v_BSGK, const AttentionMask& mask, double scale = 0);

// Overwrites dq, dk, dv (dk and dv are summed over the queries of a group; 0 for keys that no query sees). They may be
// views of one packed buffer, but not of the buffer of q, k and v.
void attention_backward(const at::Tensor& dq_BQHK, const at::Tensor& dk_BSGK, const at::Tensor& dv_BSGK,
                        const at::Tensor& dout_BQHK, const at::Tensor& out_BQHK, const at::Tensor& lse_BHQ,
                        const at::Tensor& q_BQHK, const at::Tensor& k_BSGK, const at::Tensor& v_BSGK,
                        const AttentionMask& mask, double scale = 0);

// Sinks [H] (gpt-oss, arXiv 2508.10925): the softmax of head h has one more score, sinks_H[h], whose value is zero.
// add_sinks makes lse the log of the whole denominator, and multiplies out by the share of the other scores. With these
// two, attention_backward gives the gradients of q, k and v.
void add_sinks(const at::Tensor& out_BQHK, const at::Tensor& lse_BHQ, const at::Tensor& sinks_H);
// dsinks += minus the sum over positions of exp(sink - lse) dout . out, of what add_sinks has left. dsinks: float64
// with float64, else float32.
void sinks_gradient(const at::Tensor& dsinks_H, const at::Tensor& dout_BQHK, const at::Tensor& out_BQHK,
                    const at::Tensor& lse_BHQ, const at::Tensor& sinks_H);

// Inference with a cache: q [B, N, H, K] are the last N of `length` positions (1 <= N <= length <= C). The first
// `length` rows of the caches [B, C, G, K] are their keys and values, including the N new ones. Query i sees positions
// 0 .. length - N + i, with `reach` only so many before its own. out [B, N, H, K]. sinks_H: undefined for none.
void decode_attention(const at::Tensor& out_BNHK, const at::Tensor& q_BNHK, const at::Tensor& k_cache_BCGK,
                      const at::Tensor& v_cache_BCGK, int64_t length, int64_t reach = -1, double scale = 0,
                      const at::Tensor& sinks_H = {});

// The same for one query of each of N sequences of different lengths, in one call: query n sees the first lengths_N[n]
// positions of cache rows_N[n] of [R, C, G, K]. q, out [N, H, K]; rows and lengths int32, contiguous, on their device.
void decode_attention_of_rows(const at::Tensor& out_NHK, const at::Tensor& q_NHK, const at::Tensor& k_cache_RCGK,
                              const at::Tensor& v_cache_RCGK, const at::Tensor& rows_N, const at::Tensor& lengths_N,
                              double scale = 0, const at::Tensor& sinks_H = {});

}  // namespace hearth::ops
