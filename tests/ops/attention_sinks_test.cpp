// SPDX-License-Identifier: Apache-2.0
// Sinks of attention against autograd in float64 over the whole softmax, with the sinks as one more column.
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>

#include <vector>

#include "attention_cases.h"
#include "compare.h"
#include "ops/attention.h"

namespace hearth::ops::test {
namespace {

struct SinksCase {
  at::ScalarType type;
  bool documents;
  int64_t reach;
};

class Sinks : public testing::TestWithParam<SinksCase> {};

constexpr int64_t kB = 3, kS = 37, kH = 6, kG = 2, kK = 16;

// Which of [B, S, S] keys a query does not see.
at::Tensor hidden_keys(const AttentionMask& mask) {
  const at::Tensor position = at::arange(kS), distance = position.unsqueeze(1) - position.unsqueeze(0);
  at::Tensor hidden = distance.lt(0).unsqueeze(0).repeat({kB, 1, 1});
  if (mask.reach >= 0) hidden = hidden.logical_or(distance.gt(mask.reach));
  if (!mask.document_starts_N.defined()) return hidden;
  at::Tensor begins = at::zeros({kB * kS}, at::kInt);
  begins.index_fill_(0, mask.document_starts_N.to(at::kLong), 1);
  const at::Tensor document = begins.cumsum(0).view({kB, kS});
  return hidden.logical_or(document.unsqueeze(2).ne(document.unsqueeze(1)));
}

TEST_P(Sinks, AreOneMoreScoreWhoseValueIsZero) {
  const auto [type, documents, reach] = GetParam();
  at::manual_seed(7);
  AttentionMask mask{.causal = true, .reach = reach};
  if (documents) mask.document_starts_N = several_documents(kB, kS);
  const at::Tensor q = random({kB, kS, kH, kK}, type), k = random({kB, kS, kG, kK}, type),
                   v = random({kB, kS, kG, kK}, type), dout = random({kB, kS, kH, kK}, type);
  const at::Tensor sinks = at::tensor({-2.0, -0.5, 0.0, 0.7, 1.5, 4.0}, at::kDouble).to(type);

  const at::Tensor xq = leaf(q), xk = leaf(k), xv = leaf(v), xs = leaf(sinks);
  const auto all_heads = [](const at::Tensor& x) { return x.repeat_interleave(kH / kG, 2).transpose(1, 2); };
  const at::Tensor scores = (xq.transpose(1, 2).matmul(all_heads(xk).transpose(2, 3)) / std::sqrt(double(kK)))
                                .masked_fill(hidden_keys(mask).unsqueeze(1), -INFINITY);
  const at::Tensor column = xs.view({1, kH, 1, 1}).expand({kB, kH, kS, 1});
  const at::Tensor shares = at::cat({scores, column}, -1).softmax(-1).narrow(-1, 0, kS);
  const at::Tensor expected = shares.matmul(all_heads(xv)).transpose(1, 2);
  expected.backward(dout.to(at::kDouble));

  const at::ScalarType exact = type == at::kDouble ? type : at::kFloat;
  const at::Tensor out = at::empty_like(q), lse = at::empty({kB, kH, kS}, exact);
  attention_forward(out, lse, q, k, v, mask);
  add_sinks(out, lse, sinks);
  EXPECT_LE(relative_error(out, expected), bound(type, 2 * kAttentionError));
  EXPECT_LE(relative_error(lse, at::cat({scores, column}, -1).logsumexp(-1)), 2 * kAttentionError);

  const at::Tensor dq = at::empty_like(q), dk = at::empty_like(k), dv = at::empty_like(v);
  const at::Tensor dsinks = at::full({kH}, 3.0, exact);
  sinks_gradient(dsinks, dout, out, lse, sinks);
  attention_backward(dq, dk, dv, dout, out, lse, q, k, v, mask);
  EXPECT_LE(relative_error(dsinks - 3, xs.grad()), bound(type, 2e-5)) << "added to what was there";
  EXPECT_LE(relative_error(dq, xq.grad()), bound(type, 2 * kAttentionError));
  EXPECT_LE(relative_error(dk, xk.grad()), bound(type, 2 * kAttentionError));
  EXPECT_LE(relative_error(dv, xv.grad()), bound(type, 2 * kAttentionError));

  if (documents) return;
  // Token by token: a prompt, several at once, and one of each sequence.
  for (const auto& [first, count] : {std::pair<int64_t, int64_t>(0, 9), {9, 5}, {kS - 1, 1}}) {
    const at::Tensor some = at::empty({kB, count, kH, kK}, q.options());
    decode_attention(some, q.narrow(1, first, count), k, v, first + count, reach, 0, sinks);
    EXPECT_LE(relative_error(some, expected.narrow(1, first, count)), bound(type, 2 * kAttentionError)) << first;
  }
  if (reach >= 0) return;
  const at::Tensor each = at::empty({kB, kH, kK}, q.options());
  decode_attention_of_rows(each, q.select(1, 20), k, v, at::tensor({0, 1, 2}, at::kInt), at::full({kB}, 21, at::kInt),
                           0, sinks);
  EXPECT_LE(relative_error(each, expected.select(1, 20)), bound(type, 2 * kAttentionError));
}

INSTANTIATE_TEST_SUITE_P(Types, Sinks,
                         testing::Values(SinksCase{at::kDouble, false, -1}, SinksCase{at::kDouble, true, 4},
                                         SinksCase{at::kFloat, false, -1}, SinksCase{at::kFloat, false, 5},
                                         SinksCase{at::kFloat, true, -1}, SinksCase{at::kBFloat16, false, 5},
                                         SinksCase{at::kBFloat16, true, -1}),
                         [](const auto& info) { return "Case" + std::to_string(info.index); });

}  // namespace
}  // namespace hearth::ops::test
