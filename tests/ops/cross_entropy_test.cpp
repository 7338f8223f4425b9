// SPDX-License-Identifier: Apache-2.0
#include "ops/cross_entropy.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include "compare.h"

namespace hearth::ops::test {
namespace {

constexpr double kCrossEntropyError = 3e-7;

ops::CrossEntropy forward(const at::Tensor& logits, const at::Tensor& labels, const at::Tensor& weights = {}) {
  const at::Tensor sums = at::zeros({2}, at::kDouble);
  cross_entropy_forward(sums, logits, labels.to(at::kInt), weights);
  return read_sums(sums);
}

ops::CrossEntropy forward_backward(const at::Tensor& logits, const at::Tensor& labels, double scale,
                                   const at::Tensor& weights = {}, double z_factor = 0) {
  const at::Tensor sums = at::zeros({2}, at::kDouble);
  cross_entropy_forward_backward(sums, logits, labels.to(at::kInt), at::full({1}, scale, at::kDouble), weights,
                                 z_factor);
  return read_sums(sums);
}

class CrossEntropy : public testing::TestWithParam<std::tuple<at::ScalarType, int64_t>> {
 protected:
  void SetUp() override {
    at::manual_seed(1);
    logits_ = 4 * random({kRows, V()}, type());
    labels_ = at::randint(V(), {kRows}, at::TensorOptions().dtype(at::kLong));
    labels_[3] = kIgnore;
    labels_[kRows - 1] = kIgnore;
    weights_ = at::rand({kRows});
  }
  static constexpr int64_t kRows = 13;
  at::ScalarType type() const { return std::get<0>(GetParam()); }
  int64_t V() const { return std::get<1>(GetParam()); }
  at::Tensor logits_, labels_, weights_;
};

TEST_P(CrossEntropy, LossAndGradientAgreeWithAutograd) {
  const double scale = 0.37, z_factor = 0.01;
  const at::Tensor x = leaf(logits_);
  const at::Tensor rows = at::cross_entropy_loss(x, labels_, {}, at::Reduction::None, kIgnore);
  const at::Tensor loss = (rows * weights_.to(at::kDouble)).sum();
  const at::Tensor counted = labels_.ne(kIgnore).to(at::kDouble) * weights_.to(at::kDouble);
  const at::Tensor z_squares = (at::logsumexp(x, {1}).square() * counted).sum();
  (scale * (loss + z_factor * z_squares)).backward();

  const at::Tensor forward_only = in_wider_rows(logits_);
  const at::Tensor before = forward_only.clone();
  const ops::CrossEntropy sums = forward(forward_only, labels_, weights_);
  EXPECT_NEAR(sums.loss / loss.item<double>(), 1, bound(sum_type(type()), kCrossEntropyError));
  EXPECT_NEAR(sums.z_squares / z_squares.item<double>(), 1, bound(sum_type(type()), kCrossEntropyError));
  EXPECT_TRUE(same_bits(forward_only, before));

  const at::Tensor gradient = in_wider_rows(logits_);
  const ops::CrossEntropy both = forward_backward(gradient, labels_, scale, weights_, z_factor);
  EXPECT_NEAR(both.loss / loss.item<double>(), 1, bound(sum_type(type()), kCrossEntropyError));
  EXPECT_NEAR(both.z_squares / z_squares.item<double>(), 1, bound(sum_type(type()), kCrossEntropyError));
  EXPECT_LE(relative_error(gradient, x.grad()), bound(type(), kCrossEntropyError));
  EXPECT_EQ(gradient[3].abs().sum().item<double>(), 0);
  EXPECT_TRUE(surroundings_untouched(gradient));
}

// Three ranks have parts of the vocabulary, of different sizes.
TEST_P(CrossEntropy, OfPartsOfTheVocabularyIsThatOfTheWholeOnEachRank) {
  if (V() < 3) return;
  const double scale = 0.37, z_factor = 0.01;
  const at::Tensor x = leaf(logits_), labels = labels_.to(at::kInt), scale_1 = at::full({1}, scale, at::kDouble);
  const at::Tensor rows = at::cross_entropy_loss(x, labels_, {}, at::Reduction::None, kIgnore);
  const at::Tensor loss = (rows * weights_.to(at::kDouble)).sum();
  const at::Tensor counted = labels_.ne(kIgnore).to(at::kDouble) * weights_.to(at::kDouble);
  const at::Tensor z_squares = (at::logsumexp(x, {1}).square() * counted).sum();
  (scale * (loss + z_factor * z_squares)).backward();

  const std::vector<int64_t> begins = {0, V() / 3 + 1, 2 * (V() / 3) + 1, V()};
  const at::Tensor statistics = at::full({3, kRows, 2}, 7.0, at::kDouble);
  std::vector<at::Tensor> parts;
  for (size_t r = 0; r < 3; ++r) {
    parts.push_back(in_wider_rows(logits_.narrow(1, begins[r], begins[r + 1] - begins[r]).contiguous()));
    cross_entropy_statistics(statistics[static_cast<int64_t>(r)], parts[r], labels, {begins[r], V()});
  }
  for (size_t r = 0; r < 3; ++r) {
    const plan::VocabularyPart part{begins[r], V()};
    const at::Tensor before = parts[r].clone(), read = at::zeros({2}, at::kDouble), sums = at::zeros({2}, at::kDouble);
    vocabulary_parallel_cross_entropy(read, parts[r], labels, statistics, part, {}, weights_);
    EXPECT_TRUE(same_bits(parts[r], before));
    vocabulary_parallel_cross_entropy(sums, parts[r], labels, statistics, part, scale_1, weights_, z_factor);
    EXPECT_TRUE(same_bits(sums, read));
    EXPECT_NEAR(read_sums(sums).loss / loss.item<double>(), 1, bound(sum_type(type()), kCrossEntropyError));
    EXPECT_NEAR(read_sums(sums).z_squares / z_squares.item<double>(), 1, bound(sum_type(type()), kCrossEntropyError));
    const at::Tensor gradient = x.grad().narrow(1, begins[r], begins[r + 1] - begins[r]);
    EXPECT_LE(relative_error(parts[r], gradient), bound(type(), kCrossEntropyError));
    EXPECT_EQ(parts[r][3].abs().sum().item<double>(), 0);
    EXPECT_TRUE(surroundings_untouched(parts[r]));
  }
}

TEST_P(CrossEntropy, WithoutWeightsRowsSumPlainlyOntoWhatIsThere) {
  const double expected =
      at::cross_entropy_loss(logits_.to(at::kDouble), labels_, {}, at::Reduction::Sum, kIgnore).item<double>();
  const at::Tensor sums = at::zeros({2}, at::kDouble), labels = labels_.to(at::kInt);
  cross_entropy_forward(sums, logits_.narrow(0, 0, 5), labels.narrow(0, 0, 5));
  cross_entropy_forward(sums, logits_.narrow(0, 5, kRows - 5), labels.narrow(0, 5, kRows - 5));
  EXPECT_NEAR(read_sums(sums).loss / expected, 1, bound(sum_type(type()), kCrossEntropyError));
}

TEST_P(CrossEntropy, TwoRunsGiveTheSameBits) {
  const at::Tensor a = logits_.clone(), b = logits_.clone();
  EXPECT_EQ(forward_backward(a, labels_, 1, weights_).loss, forward_backward(b, labels_, 1, weights_).loss);
  EXPECT_TRUE(same_bits(a, b));
}

// 5001 is more than one block of float sums.
INSTANTIATE_TEST_SUITE_P(Vocabularies, CrossEntropy,
                         testing::Combine(testing::Values(at::kFloat, at::kDouble, at::kBFloat16),
                                          testing::Values<int64_t>(2, 33, 258, 5001)));

TEST(CrossEntropyEdge, NanPoisonsItsRowAndTheLossButNoOtherRow) {
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    const at::Tensor logits = at::randn({3, 50}), labels = at::tensor({1, 2, 3});
    logits[1][40] = bad;
    EXPECT_TRUE(std::isnan(forward(logits, labels).loss));
    EXPECT_TRUE(std::isnan(forward_backward(logits, labels, 1).loss));
    EXPECT_TRUE(logits.isnan().any(1).equal(at::tensor({0, 1, 0}).to(at::kBool)));
  }
}

TEST(CrossEntropyEdge, MinusInfinityIsAProbabilityOfZero) {
  const at::Tensor logits = at::zeros({1, 4}), labels = at::tensor({0});
  logits[0][3] = -std::numeric_limits<float>::infinity();
  EXPECT_NEAR(forward_backward(logits, labels, 3).loss, std::log(3.0), 1e-6);
  EXPECT_TRUE(at::allclose(logits, at::tensor({-2.0f, 1.0f, 1.0f, 0.0f}).view({1, 4})));
}

TEST(CrossEntropyEdge, LargeLogitsDoNotOverflow) {
  const at::Tensor logits = at::tensor({1e30f, 1e4f, -1e30f}).view({1, 3}), labels = at::tensor({0});
  EXPECT_EQ(forward(logits, labels).loss, 0);
}

TEST(CrossEntropyEdge, NoRowsAndAllIgnored) {
  EXPECT_EQ(forward(at::empty({0, 7}), at::empty({0}, at::kLong)).loss, 0);
  const at::Tensor logits = at::full({2, 7}, std::nan(""));
  EXPECT_EQ(forward_backward(logits, at::tensor({-100, -100}), 1).loss, 0);
  EXPECT_EQ(logits.abs().sum().item<float>(), 0);
}

TEST(CrossEntropyEdge, ALabelOutsideTheVocabularyIsRefused) {
  EXPECT_TRUE(refused([&] { forward(at::zeros({1, 4}), at::tensor({4})); }, "label 4 of 4"));
  EXPECT_TRUE(refused([&] { forward(at::zeros({1, 4}), at::tensor({-1})); }, "label -1 of 4"));
}

}  // namespace
}  // namespace hearth::ops::test
