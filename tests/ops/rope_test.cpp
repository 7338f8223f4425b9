// SPDX-License-Identifier: Apache-2.0
#include "ops/rope.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/outer.h>
#include <ATen/ops/polar.h>
#include <ATen/ops/pow.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/view_as_complex.h>
#include <ATen/ops/view_as_real.h>
#include <ATen/ops/zeros.h>

#include "compare.h"
#include "ops/tensor.h"

namespace hearth::ops::test {
namespace {

constexpr double kTheta = 10000;

class RopeTest : public testing::TestWithParam<std::tuple<at::ScalarType, int64_t, bool>> {
 protected:
  void SetUp() override { at::manual_seed(1); }
  at::ScalarType type() const { return std::get<0>(GetParam()); }
  int64_t K() const { return std::get<1>(GetParam()); }
  bool halves() const { return std::get<2>(GetParam()); }
  DType dtype() const { return dtype_of(at::empty({0}, type())); }
  plan::Rope rope() const {
    plan::Rope rope;
    rope.theta = kTheta;
    rope.halves = halves();
    return rope;
  }
};

// Complex multiplication by exp(i p theta^(-2k/K)), in float64.
at::Tensor oracle(const at::Tensor& x, bool halves, int64_t start) {
  const int64_t S = x.size(1), K = x.size(3);
  const auto options = at::TensorOptions().dtype(at::kDouble);
  const at::Tensor frequency = at::pow(kTheta, at::arange(0, K, 2, options) / static_cast<double>(-K));
  const at::Tensor angle = at::outer(at::arange(start, start + S, options), frequency);
  const at::Tensor rotation = at::polar(at::ones_like(angle), angle).view({1, S, 1, K / 2});
  const at::Tensor wide = x.to(at::kDouble);
  const at::Tensor split = halves ? wide.reshape({x.size(0), S, x.size(2), 2, K / 2}).transpose(3, 4).contiguous()
                                  : wide.reshape({x.size(0), S, x.size(2), K / 2, 2});
  const at::Tensor turned = at::view_as_real(at::view_as_complex(split) * rotation);
  return (halves ? turned.transpose(3, 4) : turned).reshape(x.sizes());
}

TEST_P(RopeTest, RotatesTheFirstHeadsOfPackedQkvAsComplexNumbers) {
  const int64_t B = 3, S = 9, H = 4, G = 2;
  const at::Tensor qkv = random({B * S, (H + 2 * G) * K()}, type()), before = qkv.clone();
  const at::Tensor view = qkv.view({B, S, H + 2 * G, K()}).narrow(2, 0, H + G);
  const at::Tensor expected = oracle(view, halves(), 0);
  rope_forward(view, rope_tables(S, S, K(), rope(), dtype()).heads_SR, halves());
  EXPECT_LE(relative_error(view, expected), bound(type(), 1e-7));
  const int64_t rotated = (H + G) * K();
  EXPECT_TRUE(same_bits(qkv.narrow(1, rotated, G * K()), before.narrow(1, rotated, G * K())));  // v untouched
}

TEST_P(RopeTest, StartIsThePositionOfTheFirstRow) {
  const at::Tensor x = random({2, 3, 2, K()}, type()), expected = oracle(x, halves(), 1000);
  rope_forward(x, rope_tables(1003, 1003, K(), rope(), dtype()).heads_SR, halves(), {}, {.first = 1000});
  EXPECT_LE(relative_error(x, expected), bound(type(), 1e-7));
}

// Five documents in two sequences, one of a single position: each is rotated as if it were alone.
TEST_P(RopeTest, PositionsBeginAgainWhereADocumentStarts) {
  const at::Tensor x = random({2, 20, 3, K()}, type()), dx = x.clone(),
                   starts = at::tensor({0, 7, 8, 20, 33}, at::kInt);
  std::vector<at::Tensor> expected;
  for (const auto [row, begin, end] : {std::array<int64_t, 3>{0, 0, 7}, {0, 7, 8}, {0, 8, 20}, {1, 0, 13}, {1, 13, 20}})
    expected.push_back(oracle(x.narrow(0, row, 1).narrow(1, begin, end - begin), halves(), 0));
  const at::Tensor table = rope_tables(20, 20, K(), rope(), dtype()).heads_SR;
  rope_forward(x, table, halves(), starts);
  EXPECT_LE(relative_error(x, at::cat(expected, 1).view(x.sizes())), bound(type(), 1e-7));
  const at::Tensor turned_back = x.clone();
  rope_backward(turned_back, table, halves(), starts);
  EXPECT_LE(relative_error(turned_back, dx), bound(type(), 2e-7, 2));
}

// Rows at positions 3 to 5 and 12 to 14 of sequences of 20, with and without the documents of the test before.
TEST_P(RopeTest, RowsOfAPartOfTheSequencesAreRotatedAsInTheWhole) {
  const at::Tensor whole = random({2, 20, 3, K()}, type()), table = rope_tables(20, 20, K(), rope(), dtype()).heads_SR;
  for (const at::Tensor& starts : {at::Tensor(), at::tensor({0, 7, 8, 20, 33}, at::kInt)}) {
    const auto part_of = [](const at::Tensor& x) { return at::cat({x.narrow(1, 3, 3), x.narrow(1, 12, 3)}, 1); };
    const at::Tensor rotated = whole.clone(), part = part_of(whole);
    rope_forward(rotated, table, halves(), starts);
    rope_forward(part, table, halves(), starts, {.first = 3, .second = 12, .length = 3});
    EXPECT_TRUE(same_bits(part, part_of(rotated)));
  }
}

// The first R of K elements.
TEST_P(RopeTest, APartOfAHeadRotates) {
  const at::Tensor heads = random({2, 9, 3, K() + 5}, type()), before = heads.clone();
  rope_forward(heads, rope_tables(9, 9, K(), rope(), dtype()).heads_SR, halves());
  EXPECT_LE(relative_error(heads.narrow(3, 0, K()), oracle(before.narrow(3, 0, K()).contiguous(), halves(), 0)),
            bound(type(), 1e-7));
  EXPECT_TRUE(same_bits(heads.narrow(3, K(), 5), before.narrow(3, K(), 5)));
}

TEST_P(RopeTest, BackwardIsTheGradient) {
  const at::Tensor x = random({2, 11, 3, K()}, at::kDouble).requires_grad_();
  const at::Tensor dy = random({2, 11, 3, K()}, type());
  oracle(x, halves(), 0).backward(dy.to(at::kDouble));
  const at::Tensor dx = dy.clone();
  rope_backward(dx, rope_tables(11, 11, K(), rope(), dtype()).heads_SR, halves());
  EXPECT_LE(relative_error(dx, x.grad()), bound(type(), 1e-7));
}

INSTANTIATE_TEST_SUITE_P(Widths, RopeTest,
                         testing::Combine(testing::Values(at::kFloat, at::kDouble, at::kBFloat16),
                                          testing::Values<int64_t>(2, 6, 64, 70), testing::Bool()));

// The result of transformers' modeling_rope_utils for theta 500000, width 128, factor 8, 1 and 4, 8192: pairs with
// unchanged frequency, seven in between, and pairs with an eighth of it.
TEST(RopeScaling, HasTheFrequenciesOfLlama31) {
  plan::Rope rope;
  rope.theta = 500000;
  const std::vector<double> plain = rope_frequencies(rope, 128, 16384);
  rope.scaling_factor = 8;
  const std::vector<double> scaled = rope_frequencies(rope, 128, 16384);
  const std::vector<double> expected = {0.0021665706299245358, 0.0013718936825171113, 0.0008567514596506953,
                                        0.0005248460220173001, 0.0003126936499029398, 0.0001785077911335975,
                                        9.556212171446532e-05};
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(scaled[29 + i] / expected[i], 1, 1e-6) << i;
  for (size_t i = 0; i <= 28; ++i) EXPECT_EQ(scaled[i], plain[i]) << i;
  for (size_t i = 36; i < 64; ++i) EXPECT_EQ(scaled[i], plain[i] / 8) << i;
}

TEST(RopeEdge, DocumentsThatReachOverASequenceAreRefused) {
  const at::Tensor table = rope_tables(6, 6, 8, {}, DType::kFloat32).heads_SR;
  const auto turn = [&](const at::Tensor& starts) {
    return [&] { rope_forward(at::zeros({2, 6, 1, 8}), table, false, starts); };
  };
  EXPECT_TRUE(refused(turn(at::tensor({0, 4}, at::kInt)), "a document from 4 to 10 in sequences of 6"));
  EXPECT_TRUE(refused(turn(at::tensor({1, 6}, at::kInt)), "the first document starts at 1"));
}

TEST(RopeEdge, AWrongStartIsRefused) {
  EXPECT_TRUE(refused(
      [&] {
        rope_forward(at::zeros({1, 4, 1, 8}), rope_tables(6, 6, 8, {}, DType::kFloat32).heads_SR, false, {},
                     {.first = 3});
      },
      "the table has 6"));
}

}  // namespace
}  // namespace hearth::ops::test
