// SPDX-License-Identifier: Apache-2.0
// Attention by autograd in float64 over the full score matrix, and comparisons of ours with it.
#pragma once

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <utility>
#include <vector>

#include "compare.h"
#include "ops/attention.h"

namespace hearth::ops::test {

// A score's gradient is a difference of two sums; with a single key only their rounding errors are left.
inline constexpr double kAttentionError = 2e-6;

struct Shape {
  int64_t B, S, H, G, K;
};

// Rows in alternation: several documents (one of a single position), one document, and two.
inline at::Tensor several_documents(int64_t B, int64_t S) {
  std::vector<int32_t> starts;
  for (int64_t b = 0; b < B; ++b) {
    const std::vector<int64_t> of_row[] = {{0, S / 4, S / 4 + 1, S / 2}, {0}, {0, S - 1}};
    for (const int64_t start : of_row[b % 3]) {
      const auto place = static_cast<int32_t>(b * S + start);
      if (start < S && (starts.empty() || place > starts.back())) starts.push_back(place);
    }
  }
  return at::tensor(starts, at::kInt);
}

// With the full score matrix, in float64. Also returns the log of the softmax denominators.
inline std::pair<at::Tensor, at::Tensor> attention_in_float64(const at::Tensor& q, const at::Tensor& k,
                                                              const at::Tensor& v, const AttentionMask& mask,
                                                              double scale = 0) {
  const int64_t group = q.size(2) / k.size(2), B = q.size(0), N = q.size(1), C = k.size(1);
  const at::Tensor keys = k.repeat_interleave(group, 2).transpose(1, 2),
                   values = v.repeat_interleave(group, 2).transpose(1, 2);
  const double factor = scale > 0 ? scale : 1 / std::sqrt(static_cast<double>(q.size(3)));
  at::Tensor scores = q.transpose(1, 2).matmul(keys.transpose(2, 3)) * factor;
  at::Tensor hidden_BNC = at::zeros({B, N, C}, at::kBool);
  if (mask.causal) hidden_BNC = hidden_BNC.logical_or(at::ones({N, C}, at::kBool).triu(C - N + 1));
  if (mask.document_starts_N.defined()) {
    at::Tensor begins = at::zeros({B * N}, at::kInt);
    begins.index_fill_(0, mask.document_starts_N.to(at::kLong), 1);
    const at::Tensor document_BN = begins.cumsum(0).view({B, N});
    hidden_BNC = hidden_BNC.logical_or(document_BN.unsqueeze(2).ne(document_BN.unsqueeze(1)));
  }
  if (mask.reach >= 0) {
    const at::Tensor position = at::arange(C);
    const at::Tensor distance = position.slice(0, C - N).unsqueeze(1) - position.unsqueeze(0);
    hidden_BNC = hidden_BNC.logical_or(distance.abs().gt(mask.reach));
  }
  scores = scores.masked_fill(hidden_BNC.unsqueeze(1), -std::numeric_limits<double>::infinity());
  return {scores.softmax(-1).matmul(values).transpose(1, 2), scores.logsumexp(-1)};
}

struct Results {
  at::Tensor out, lse, dq, dk, dv;
};

inline bool all_same_bits(const Results& a, const Results& b) {
  return same_bits(a.out, b.out) && same_bits(a.lse, b.lse) && same_bits(a.dq, b.dq) && same_bits(a.dk, b.dk) &&
         same_bits(a.dv, b.dv);
}

struct Inputs {
  at::Tensor q, k, v, dout;
};

// The same values at each call: slices of one buffer.
inline Inputs inputs(const Shape& s, at::ScalarType type) {
  at::manual_seed(3);
  const at::Tensor qkv = at::randn({s.B, s.S, s.H + 2 * s.G, s.K}).to(type);
  return {qkv.narrow(2, 0, s.H), qkv.narrow(2, s.H, s.G), qkv.narrow(2, s.H + s.G, s.G),
          at::randn({s.B, s.S, s.H, s.K}).to(type)};
}

inline at::ScalarType statistics_of(const at::Tensor& x) {
  return x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

inline Results run(const Inputs& x, const AttentionMask& mask) {
  const Results r{at::empty_like(x.dout),
                  at::empty({x.q.size(0), x.q.size(2), x.q.size(1)}, at::TensorOptions().dtype(statistics_of(x.q))),
                  at::empty_like(x.q), at::empty_like(x.k), at::empty_like(x.v)};
  attention_forward(r.out, r.lse, x.q, x.k, x.v, mask);
  attention_backward(r.dq, r.dk, r.dv, x.dout, r.out, r.lse, x.q, x.k, x.v, mask);
  return r;
}

// By autograd, in float64.
inline Results expected_of(const Inputs& x, const AttentionMask& mask) {
  const at::Tensor q = leaf(x.q), k = leaf(x.k), v = leaf(x.v);
  const auto [out, lse] = attention_in_float64(q, k, v, mask);
  out.backward(x.dout.to(at::kDouble));
  return {out, lse, q.grad(), k.grad(), v.grad()};
}

inline void expect_right(const Shape& s, const AttentionMask& mask, at::ScalarType type = at::kFloat) {
  const Inputs x = inputs(s, type);
  const Results r = run(x, mask), expected = expected_of(x, mask);
  EXPECT_LE(relative_error(r.out, expected.out), bound(type, kAttentionError));
  EXPECT_LE(relative_error(r.lse, expected.lse), kAttentionError);
  EXPECT_LE(relative_error(r.dq, expected.dq), bound(type, kAttentionError));
  EXPECT_LE(relative_error(r.dk, expected.dk), bound(type, kAttentionError));
  EXPECT_LE(relative_error(r.dv, expected.dv), bound(type, kAttentionError));
}

// Few heads and many queries: several tasks share one head's keys.
inline constexpr Shape kLong = {1, 2100, 2, 1, 16};

// Queries at some positions: as all of them, with gradients from these positions alone.
inline void expect_right_part(const Shape& s, const plan::Chunks& queries, int64_t Q, AttentionMask mask,
                              at::ScalarType type) {
  std::vector<int64_t> positions;
  for (int64_t i = 0; i < Q; ++i) positions.push_back(queries.position(i));
  const at::Tensor at_Q = at::tensor(positions, at::kLong);
  Inputs whole = inputs(s, type), part = whole;
  part.q = whole.q.index_select(1, at_Q);
  part.dout = whole.dout.index_select(1, at_Q);
  whole.dout = at::zeros_like(whole.dout).index_copy(1, at_Q, part.dout);
  const Results expected = expected_of(whole, mask);
  mask.queries = queries;
  const Results r = run(part, mask);
  const double bound_of_type = bound(type, kAttentionError);
  EXPECT_LE(relative_error(r.out, expected.out.index_select(1, at_Q)), bound_of_type);
  EXPECT_LE(relative_error(r.lse, expected.lse.index_select(2, at_Q)), kAttentionError);
  EXPECT_LE(relative_error(r.dq, expected.dq.index_select(1, at_Q)), bound_of_type);
  EXPECT_LE(relative_error(r.dk, expected.dk), bound_of_type);
  EXPECT_LE(relative_error(r.dv, expected.dv), bound_of_type);
}

}  // namespace hearth::ops::test
