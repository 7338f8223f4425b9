// SPDX-License-Identifier: Apache-2.0
#include "ops/attention.h"

#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <vector>

#include "attention_cases.h"
#include "compare.h"
#include "targets.h"

namespace hearth::ops::test {
namespace {

enum class Documents { kOneARow, kSeveral };

class Attention : public testing::TestWithParam<std::tuple<at::ScalarType, bool, Documents, Shape>> {
 protected:
  void SetUp() override {
    at::manual_seed(1);
    const auto [B, S, H, G, K] = shape();
    qkv_ = random({B * S, (H + 2 * G) * K}, type());
    dout_ = random({B * S, H * K}, type()).view({B, S, H, K});
    mask_.causal = std::get<1>(GetParam());
    if (std::get<2>(GetParam()) == Documents::kSeveral) mask_.document_starts_N = several_documents(B, S);
  }
  at::ScalarType type() const { return std::get<0>(GetParam()); }
  at::TensorOptions statistics() const {
    return at::TensorOptions().dtype(type() == at::kDouble ? type() : at::kFloat);
  }
  Shape shape() const { return std::get<3>(GetParam()); }
  // Heads beside others of their kind have a scale of their own.
  double scale() const { return shape().G > 1 ? 0.17 : 0; }
  // q, k or v, as a slice of a packed buffer like qkv_.
  at::Tensor part(const at::Tensor& packed, int which) const {
    const auto [B, S, H, G, K] = shape();
    const at::Tensor heads = packed.view({B, S, H + 2 * G, K});
    return which == 0 ? heads.narrow(2, 0, H) : heads.narrow(2, H + (which - 1) * G, G);
  }
  at::Tensor qkv_, dout_;
  AttentionMask mask_;
};

TEST_P(Attention, ForwardAndBackwardAgreeWithAutogradOnPackedQkv) {
  const auto [B, S, H, G, K] = shape();
  const at::Tensor x = leaf(qkv_);
  const auto [expected, expected_lse] = attention_in_float64(part(x, 0), part(x, 1), part(x, 2), mask_, scale());
  expected.backward(dout_.to(at::kDouble));

  const at::Tensor out = at::full({B, S, H, K}, std::nan(""), qkv_.options());
  const at::Tensor lse = at::full({B, H, S}, std::nan(""), statistics());
  attention_forward(out, lse, part(qkv_, 0), part(qkv_, 1), part(qkv_, 2), mask_, scale());
  EXPECT_LE(relative_error(out, expected), bound(type(), kAttentionError));
  EXPECT_LE(relative_error(lse, expected_lse), type() == at::kDouble ? 1e-10 : kAttentionError);

  const at::Tensor dqkv = at::full_like(qkv_, std::nan(""));
  attention_backward(part(dqkv, 0), part(dqkv, 1), part(dqkv, 2), dout_, out, lse, part(qkv_, 0), part(qkv_, 1),
                     part(qkv_, 2), mask_, scale());
  for (int which = 0; which < 3; ++which) {
    EXPECT_LE(relative_error(part(dqkv, which), part(x.grad(), which)), bound(type(), kAttentionError)) << "qkv"[which];
  }
}

TEST_P(Attention, TwoRunsGiveTheSameBits) {
  const auto [B, S, H, G, K] = shape();
  at::Tensor gradients[2];
  for (at::Tensor& dqkv : gradients) {
    const at::Tensor out = at::empty({B, S, H, K}, qkv_.options()), lse = at::empty({B, H, S}, statistics());
    dqkv = at::empty_like(qkv_);
    attention_forward(out, lse, part(qkv_, 0), part(qkv_, 1), part(qkv_, 2), mask_);
    attention_backward(part(dqkv, 0), part(dqkv, 1), part(dqkv, 2), dout_, out, lse, part(qkv_, 0), part(qkv_, 1),
                       part(qkv_, 2), mask_);
  }
  EXPECT_TRUE(same_bits(gradients[0], gradients[1]));
}

TEST_P(Attention, DecodingStepByStepEqualsTheWholeSequence) {
  if (type() == at::kBFloat16 || !mask_.causal || mask_.document_starts_N.defined()) return;  // needs one document
  const auto [B, S, H, G, K] = shape();
  const at::Tensor q = part(qkv_, 0).to(at::kDouble);
  const at::Tensor expected =
      attention_in_float64(q, part(qkv_, 1).to(at::kDouble), part(qkv_, 2).to(at::kDouble), mask_, scale()).first;
  // A cache with free rows, which are NaN until written.
  const at::Tensor cache = at::full({2, B, S + 3, G, K}, std::nan(""), qkv_.options());
  cache.narrow(2, 0, S).copy_(at::stack({part(qkv_, 1), part(qkv_, 2)}));
  const at::Tensor out = at::full({B, S, H, K}, std::nan(""), qkv_.options());
  const int64_t prompt = std::max<int64_t>(1, S / 2);
  int64_t length = prompt;
  decode_attention(out.narrow(1, 0, prompt), part(qkv_, 0).narrow(1, 0, prompt), cache[0], cache[1], length, -1,
                   scale());
  for (const int64_t step : {2, 1, 3}) {  // several new positions at once, and one
    const int64_t n = std::min(step, S - length);
    if (n == 0) break;
    decode_attention(out.narrow(1, length, n), part(qkv_, 0).narrow(1, length, n), cache[0], cache[1], length + n, -1,
                     scale());
    length += n;
  }
  EXPECT_LE(relative_error(out.narrow(1, 0, length), expected.narrow(1, 0, length)), bound(type(), kAttentionError));
}

const auto kDocuments = testing::Values(Documents::kOneARow, Documents::kSeveral);

INSTANTIATE_TEST_SUITE_P(Shapes, Attention,
                         testing::Combine(testing::Values(at::kFloat, at::kDouble), testing::Bool(), kDocuments,
                                          testing::Values(Shape{1, 1, 1, 1, 2}, Shape{2, 7, 4, 4, 6},
                                                          Shape{2, 33, 4, 2, 16}, Shape{3, 50, 8, 2, 12})));

// Every head width of a model, 1 to H queries for a key, lengths at the borders of tiles.
INSTANTIATE_TEST_SUITE_P(Widths, Attention,
                         testing::Combine(testing::Values(at::kFloat, at::kBFloat16), testing::Bool(), kDocuments,
                                          testing::Values(Shape{3, 1, 4, 2, 16}, Shape{2, 63, 4, 4, 32},
                                                          Shape{3, 129, 8, 4, 64}, Shape{2, 129, 3, 1, 80},
                                                          Shape{1, 65, 4, 2, 96}, Shape{1, 300, 4, 1, 128},
                                                          Shape{2, 129, 2, 1, 256}, Shape{1, 600, 2, 2, 64})));

TEST(AttentionEdge, PartsOfAKeysGradientAreAddedUp) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    expect_right(kLong, {.causal = true}, type);
    expect_right(kLong, {.causal = false, .document_starts_N = several_documents(1, kLong.S)}, type);
  }
}

// The chunks of context parallel's ranks, and queries in the middle of a block of keys.
TEST(AttentionEdge, QueriesOfAPartOfTheSequencesAreRight) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kDouble}) {
    for (const bool causal : {true, false}) {
      for (const bool several : {false, true}) {
        for (int64_t rank = 0; rank < 3; ++rank) {
          const Shape s{2, 240, 4, 2, 24};
          const at::Tensor starts = several ? several_documents(s.B, s.S) : at::Tensor();
          expect_right_part(s, plan::chunks_of({rank, 3, 3}, s.S), 80, {causal, starts}, type);
        }
        expect_right_part({1, 150, 2, 1, 16}, {.first = 97}, 30, {causal}, type);
      }
    }
  }
  // Several tasks share one head's keys.
  expect_right_part({1, 4200, 2, 1, 16}, plan::chunks_of({1, 2, 2}, 4200), 2100, {.causal = true}, at::kFloat);
}

TEST(AttentionEdge, EveryInstructionSetIsRight) {
  with_each_target([] {
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      for (const int64_t K : {12, 17, 64, 80}) {
        expect_right({2, 131, 4, 2, K}, {.causal = true, .document_starts_N = several_documents(2, 131)}, type);
      }
    }
  });
}

TEST(AttentionEdge, BitsDoNotDependOnTheNumberOfThreads) {
  const int threads = at::get_num_threads();
  for (const Shape& shape : {kLong, Shape{2, 300, 4, 2, 32}}) {
    for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
      const Inputs x = inputs(shape, type);
      at::set_num_threads(1);
      const Results one = run(x, {.causal = true});
      at::set_num_threads(3);
      const Results three = run(x, {.causal = true});
      at::set_num_threads(threads);
      EXPECT_TRUE(all_same_bits(one, three)) << type;
    }
  }
}

TEST(AttentionEdge, PairsOfBfloat16AreMultipliedWhereTheCpuCan) {
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    const Inputs x = inputs({1, 70, 2, 1, 64}, type);
    use_bf16_dot_for_test(true);
    const Results shown = run(x, {.causal = true});
    use_bf16_dot_for_test(false);
    const Results hidden = run(x, {.causal = true});
    use_bf16_dot_for_test(std::nullopt);
    const bool pairs = type == at::kBFloat16 && has_bf16_dot();
    EXPECT_EQ(same_bits(shown.out, hidden.out), !pairs);
    EXPECT_EQ(same_bits(shown.dq, hidden.dq), !pairs);
    EXPECT_EQ(same_bits(shown.dk, hidden.dk), !pairs);
    EXPECT_EQ(same_bits(shown.dv, hidden.dv), !pairs);
  }
}

// ATen also rounds the softmax and the gradient of the scores to bfloat16.
TEST(AttentionEdge, InBfloat16NothingIsFurtherFromFloat64ThanAtens) {
  const auto heads_first = [](const at::Tensor& x) { return x.transpose(1, 2); };
  const Inputs x = inputs({1, 300, 2, 2, 64}, at::kBFloat16);
  const Results ours = run(x, {.causal = true}), expected = expected_of(x, {.causal = true});
  const at::Tensor q = heads_first(x.q), k = heads_first(x.k), v = heads_first(x.v), dout = heads_first(x.dout);
  const auto [out, lse] = at::_scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, true);
  const auto [dq, dk, dv] =
      at::_scaled_dot_product_flash_attention_for_cpu_backward(dout, q, k, v, out, lse, 0.0, true);
  const auto expect_no_further = [&](const at::Tensor& our, const at::Tensor& atens, const at::Tensor& right) {
    EXPECT_LE(relative_error(our, right), relative_error(heads_first(atens), right));
  };
  expect_no_further(ours.out, out, expected.out);
  expect_no_further(ours.dq, dq, expected.dq);
  expect_no_further(ours.dk, dk, expected.dk);
  expect_no_further(ours.dv, dv, expected.dv);
}

// A constant part of all values cancels in the scores' gradients only if an output's rounded weights add up to 1.
// Weights that are rounded after their normalisation cost a third of the precision here.
TEST(AttentionEdge, RoundedWeightsAddUpToOne) {
  Inputs x = inputs({1, 300, 2, 2, 64}, at::kBFloat16);
  x.v = x.v + 4.0, x.dout = x.dout + 4.0;
  use_bf16_dot_for_test(true);
  const Results rounded = run(x, {.causal = true}), expected = expected_of(x, {.causal = true});
  use_bf16_dot_for_test(false);
  const Results exact = run(x, {.causal = true});
  use_bf16_dot_for_test(std::nullopt);
  EXPECT_LE(relative_error(rounded.dq, expected.dq), 1.1 * relative_error(exact.dq, expected.dq));
  EXPECT_LE(relative_error(rounded.dk, expected.dk), 1.1 * relative_error(exact.dk, expected.dk));
}

TEST(AttentionEdge, ScoresFarFromZeroNeitherOverflowNorVanish) {
  const at::Tensor x = at::zeros({1, 3, 1, 4});
  for (int64_t s = 0; s < 3; ++s) x[0][s].fill_(100.0 * static_cast<double>(s + 1));
  const at::Tensor out = at::empty_like(x), lse = at::empty({1, 1, 3});
  attention_forward(out, lse, x, x, x, {.causal = false});
  EXPECT_TRUE(out.eq(300).all().item<bool>());  // the largest key has all the weight
  EXPECT_TRUE(lse.eq(at::tensor({60000.0f, 120000.0f, 180000.0f}).view({1, 1, 3})).all().item<bool>()) << lse;
}

TEST(AttentionEdge, NanReachesWhatSeesItInTraining) {
  const auto is_nan = [](const at::Tensor& x, int64_t s) { return x[0][s].isnan().any().item<bool>(); };
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    for (const int which : {0, 1, 2, 3}) {
      const auto ones = [&](int i) {
        const at::Tensor x = at::ones({1, 40, 1, 8}, at::TensorOptions().dtype(type));
        if (i == which) x[0][3][0][0].fill_(std::nan(""));
        return x;
      };
      const Results r = run({ones(0), ones(1), ones(2), ones(3)}, {.causal = true});
      EXPECT_EQ(is_nan(r.out, 3), which != 3) << which;
      EXPECT_EQ(is_nan(r.out, 39), which == 1 || which == 2) << which;
      EXPECT_TRUE(is_nan(r.dq, 3)) << which;
      EXPECT_EQ(is_nan(r.dq, 39), which == 1 || which == 2) << which;
      EXPECT_TRUE(is_nan(r.dk, 3)) << which;
      EXPECT_EQ(is_nan(r.dv, 3), which != 2) << which;  // dv does not depend on the values
      EXPECT_EQ(is_nan(r.dk, 39), which == 1 || which == 2) << which;
    }
  }
}

TEST(AttentionEdge, NanReachesEveryLaterPositionAndNoEarlierOne) {
  at::manual_seed(3);
  const at::Tensor q = at::randn({1, 6, 1, 8}), k = at::randn({1, 6, 1, 8}), v = at::randn({1, 6, 1, 8});
  v[0][3][0][0] = std::nan("");
  const at::Tensor out = at::empty_like(q), lse = at::empty({1, 1, 6});
  decode_attention(out, q, k, v, 6);
  EXPECT_TRUE(out.isnan().any(3).view({6}).slice(0, 3).all().item<bool>());
}

TEST(AttentionEdge, DocumentsThatLeaveTheirRowAreRefused) {
  const at::Tensor q = at::ones({2, 6, 1, 8}), lse = at::empty({2, 1, 6});
  const std::vector<std::vector<int32_t>> wrong = {{0, 3}, {1, 6}, {0, 6, 6}, {0, 6, 4}, {0, 6, 12}, {}};
  for (const auto& starts : wrong) {
    const AttentionMask mask{.document_starts_N = at::tensor(starts, at::kInt)};
    EXPECT_TRUE(refused([&] { attention_forward(at::empty_like(q), lse, q, q, q, mask); }, "document"))
        << testing::PrintToString(starts);
  }
}

TEST(AttentionEdge, NoSequencesOrNoPositionsIsNoWork) {
  for (const auto& [B, S] : {std::pair<int64_t, int64_t>{0, 4}, {2, 0}}) {
    const at::Tensor q = at::empty({B, S, 2, 8}), k = at::empty({B, S, 1, 8}), lse = at::empty({B, 2, S});
    attention_forward(q, lse, q, k, k, {.causal = true});
    attention_backward(q, k, k, q, q, lse, q, k, k, {.causal = true});
  }
}

}  // namespace
}  // namespace hearth::ops::test
