// SPDX-License-Identifier: Apache-2.0
#include "ops/norm.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "compare.h"

namespace hearth::ops::test {
namespace {

using plan::Norm;
using plan::NormType;

constexpr double kEps = 1e-5;
constexpr double kNormError = 3e-7;  // a few roundings; errors of the sums of squares average out
constexpr NormType kTypes[] = {NormType::kRmsNorm, NormType::kLayerNorm, NormType::kNpLayerNorm, NormType::kRmsNormNeox,
                               NormType::kRmsNorm1p};
constexpr const char* kNames[] = {"Rmsnorm", "Layernorm", "NpLayernorm", "RmsnormNeox", "Rmsnorm1p"};

// PyTorch's norms; GPT-NeoX's as in its code: x / (|x| D^-0.5 + eps) * scale; Gemma's: n * (1 + weight).
at::Tensor oracle(const Norm& norm, const at::Tensor& x, const at::Tensor& w) {
  if (plan::is_centred(norm.type)) return at::layer_norm(x, {x.size(1)}, w.defined() ? w : at::Tensor(), {}, norm.eps);
  if (norm.type == NormType::kRmsNorm) return x * (x.pow(2).mean(-1, true) + norm.eps).rsqrt() * w;
  if (norm.type == NormType::kRmsNorm1p) return oracle({NormType::kRmsNorm, norm.eps}, x, 1 + w);
  return x / (x.norm(2, -1, true) * std::pow(static_cast<double>(x.size(1)), -0.5) + norm.eps) * w;
}

class NormTest : public testing::TestWithParam<std::tuple<NormType, at::ScalarType, int64_t, int64_t>> {
 protected:
  void SetUp() override { at::manual_seed(1); }
  Norm norm() const { return {std::get<0>(GetParam()), kEps}; }
  at::ScalarType type() const { return std::get<1>(GetParam()); }
  int64_t T() const { return std::get<2>(GetParam()); }
  int64_t D() const { return std::get<3>(GetParam()); }
  at::Tensor weight() const { return plan::has_weight(norm().type) ? random({D()}, type()) : at::Tensor(); }
  at::Tensor statistics() const {
    return at::empty({plan::is_centred(norm().type) ? 2 : 1, T()}, at::TensorOptions().dtype(exact()));
  }
  at::ScalarType exact() const { return type() == at::kBFloat16 ? at::kFloat : type(); }
  // For tensors that are float32 even if rows are bfloat16.
  double exact_tolerance() const { return type() == at::kBFloat16 ? kNormError : tolerance(); }
  // A row of one element minus its mean is 0 up to rounding, and 1 / sqrt(eps) enlarges that: an absolute error.
  double tolerance() const { return bound(type(), plan::is_centred(norm().type) && D() == 1 ? 1e-6 : kNormError); }
};

at::Tensor wide(const at::Tensor& x) { return x.defined() ? x.to(at::kDouble) : x; }

TEST_P(NormTest, ForwardAgreesWithPyTorchAlsoOnStridedRows) {
  const at::Tensor x = random({T(), D()}, type()) + 0.5, w = weight();
  const at::Tensor y = in_wider_rows(at::zeros_like(x)), s = statistics(), x64 = x.to(at::kDouble);
  norm_forward(norm(), y, s, in_wider_rows(x), w);
  EXPECT_LE(relative_error(y, oracle(norm(), x64, wide(w))), tolerance());
  const at::Tensor rms = x64.pow(2).mean(-1);
  if (norm().type == NormType::kRmsNorm || norm().type == NormType::kRmsNorm1p) {
    EXPECT_LE(relative_error(s[0], (rms + kEps).rsqrt()), exact_tolerance());
  } else if (norm().type == NormType::kRmsNormNeox) {
    EXPECT_LE(relative_error(s[0], rms.sqrt()), exact_tolerance());
  } else {
    EXPECT_LE(relative_error(s[1], x64.mean(-1)), 2 * exact_tolerance());
  }
  EXPECT_TRUE(surroundings_untouched(y));
}

TEST_P(NormTest, FusedResidualEqualsAddThenNormBitForBit) {
  const at::Tensor x = random({T(), D()}, type()), r = random({T(), D()}, type()), w = weight();
  const at::Tensor h = at::empty_like(x), y = at::empty_like(x), s = statistics();
  add_norm_forward(norm(), h, y, s, x, r, w);
  const at::Tensor sum = x + r, y2 = at::empty_like(x), s2 = statistics();
  norm_forward(norm(), y2, s2, sum, w);
  EXPECT_TRUE(same_bits(h, sum));
  EXPECT_TRUE(same_bits(y, y2));
  EXPECT_TRUE(same_bits(s, s2));

  const at::Tensor in_place = x.clone();
  add_norm_forward(norm(), in_place, y, s, in_place, r, w);
  EXPECT_TRUE(same_bits(in_place, sum));
}

TEST_P(NormTest, BackwardAgreesWithAutograd) {
  const at::Tensor x = random({T(), D()}, type()) + 0.5, w = weight(), dy = random({T(), D()}, type());
  const at::Tensor x64 = leaf(x), w64 = w.defined() ? leaf(w) : w;
  oracle(norm(), x64, w64).backward(dy.to(at::kDouble));

  const at::Tensor y = at::empty_like(x), s = statistics();
  norm_forward(norm(), y, s, x, w);
  const at::Tensor dx = at::full_like(x, 7.0), dw = w.defined() ? at::ones({D()}, s.options()) : w;
  norm_backward(norm(), dx, dw, in_wider_rows(dy), in_wider_rows(x), s, w, false);
  // The gradient is a difference of terms, nearly equal if D is small: errors are relative to the first of them.
  const at::Tensor r = norm().type == NormType::kRmsNormNeox ? 1 / (s[0] + kEps) : s[0];
  const at::Tensor factors = !w.defined() ? at::ones_like(x) : plan::adds_one(norm().type) ? 1 + w : w;
  const double size = (dy * factors * r.unsqueeze(1)).to(at::kDouble).norm().item<double>();
  const auto error = [&](const at::Tensor& a, const at::Tensor& b) { return (a - b).norm().item<double>() / size; };
  EXPECT_LE(error(dx.to(at::kDouble), x64.grad()), bound(type(), kNormError));
  if (w.defined()) {
    // Added to the former value. A sum of 300 numbers of either sign may be small: errors are relative to its terms.
    const at::Tensor terms = dy.to(at::kDouble) * oracle(norm(), x.to(at::kDouble), at::ones_like(w.to(at::kDouble)));
    const double of_terms = (terms.abs().sum(0) + 1).norm().item<double>();
    EXPECT_LE((dw - (w64.grad() + 1)).norm().item<double>(), exact_tolerance() * of_terms);
  }

  const at::Tensor residual = random({T(), D()}, type()), accumulated = residual.clone();
  norm_backward(norm(), accumulated, dw, dy, x, s, w, true);
  const at::Tensor expected = residual.to(at::kDouble) + x64.grad();
  EXPECT_LE((accumulated - expected).norm().item<double>() / (size + residual.norm().item<double>()),
            bound(type(), kNormError));

  const at::Tensor in_place = dy.clone();
  norm_backward(norm(), in_place, dw, in_place, x, s, w, false);
  EXPECT_TRUE(same_bits(in_place, dx));
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, NormTest,
    testing::Combine(testing::ValuesIn(kTypes), testing::Values(at::kFloat, at::kDouble, at::kBFloat16),
                     testing::Values<int64_t>(1, 37, 300), testing::Values<int64_t>(1, 8, 31, 512, 1001)),
    [](const auto& info) {
      return fmt::format("{}{}{}x{}", kNames[static_cast<int>(std::get<0>(info.param))],
                         c10::toString(std::get<1>(info.param)), std::get<2>(info.param), std::get<3>(info.param));
    });

// Heads in rows of queries, keys and values; the heads before and after them stay as they are.
TEST_P(NormTest, HeadsInRowsHaveTheBitsOfRows) {
  if (D() > 512) return;
  const at::Tensor qkv = random({T(), 5, D()}, type()), before = qkv.clone(), w = weight(), dy = qkv.narrow(1, 1, 3);
  const at::Tensor x = random({T(), 4, D()}, type()).narrow(1, 0, 3), flat_x = x.clone().view({T() * 3, D()});
  const at::Tensor flat_y = at::empty_like(flat_x), flat_dx = dy.clone().view({T() * 3, D()});
  const at::Tensor s = at::empty({plan::is_centred(norm().type) ? 2 : 1, T() * 3}, statistics().options()),
                   s2 = at::empty_like(s);
  const auto zeros = [&] { return w.defined() ? at::zeros({D()}, s.options()) : at::Tensor(); };
  const at::Tensor dw = zeros(), dw2 = zeros(), y = at::empty_like(qkv).narrow(1, 1, 3);
  norm_forward(norm(), y, s, x, w);
  norm_forward(norm(), flat_y, s2, flat_x, w);
  EXPECT_TRUE(same_bits(y.contiguous().view({T() * 3, D()}), flat_y));
  EXPECT_TRUE(same_bits(s, s2));
  norm_backward(norm(), dy, dw, dy, x, s, w, false);
  norm_backward(norm(), flat_dx, dw2, flat_dx, flat_x, s2, w, false);
  EXPECT_TRUE(same_bits(dy.contiguous().view({T() * 3, D()}), flat_dx));
  if (w.defined()) {
    EXPECT_TRUE(same_bits(dw, dw2));
  }
  for (const int64_t other : {0, 4}) EXPECT_TRUE(same_bits(qkv.select(1, other), before.select(1, other)));
}

TEST(NormEdge, HeadsWithGapsAreRefused) {
  const at::Tensor x = at::ones({2, 3, 10}).narrow(2, 0, 8), w = at::ones({8}), s = at::empty({1, 6});
  EXPECT_TRUE(refused([&] { norm_forward({}, x, s, x, w); }, "heads are not next to each other"));
}

TEST(NormEdge, NoRowsIsNoWork) {
  const at::Tensor none = at::empty({0, 16}), w = at::ones({16}), dw = at::zeros({16}), s = at::empty({1, 0});
  norm_forward({}, none, s, none, w);
  norm_backward({}, none, dw, none, none, s, w, true);
  EXPECT_EQ(dw.abs().sum().item<float>(), 0);
}

TEST(NormEdge, NanStaysInItsRow) {
  const at::Tensor x = at::randn({4, 40}), w = at::ones({40}), y = at::empty_like(x), s = at::empty({1, 4});
  x.select(0, 2)[7] = std::nan("");
  norm_forward({}, y, s, x, w);
  const at::Tensor nan_rows = y.isnan().all(1);
  EXPECT_TRUE(nan_rows.equal(at::tensor({0, 0, 1, 0}).to(at::kBool)));
  EXPECT_EQ(y.isnan().sum().item<int64_t>(), 40);
}

// The length of a row has no derivative at 0. PyTorch uses 0 there, so the gradient is g / eps.
TEST(NormEdge, ARowOfZerosHasPyTorchsGradient) {
  for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
    for (const NormType norm_type : {NormType::kRmsNorm, NormType::kLayerNorm, NormType::kRmsNormNeox}) {
      const Norm norm{norm_type, kEps};
      const auto options = at::TensorOptions().dtype(type);
      const at::Tensor x = at::zeros({2, 12}, options), w = at::ones({12}, options), dy = random({2, 12}, type);
      const at::Tensor y = at::empty_like(x), s = at::empty({plan::is_centred(norm_type) ? 2 : 1, 2}, options);
      const at::Tensor dx = at::empty_like(x), dw = at::zeros_like(w), x64 = leaf(x);
      oracle(norm, x64, w.to(at::kDouble)).backward(dy.to(at::kDouble));
      norm_forward(norm, y, s, x, w);
      norm_backward(norm, dx, dw, dy, x, s, w, false);
      EXPECT_LE(relative_error(dx, x64.grad()), bound(type, 1e-6)) << static_cast<int>(norm_type);
    }
  }
}

TEST(NormEdge, AWeightTooManyOrTooFewIsRefused) {
  const at::Tensor x = at::ones({2, 8}), w = at::ones({8}), s = at::empty({2, 2});
  EXPECT_TRUE(refused([&] { norm_forward({NormType::kNpLayerNorm, kEps}, x, s, x, w); }, "and its weight"));
  EXPECT_TRUE(refused([&] { norm_forward({NormType::kLayerNorm, kEps}, x, s, x, {}); }, "and its weight"));
}

TEST(NormEdge, BitsDoNotDependOnTheNumberOfThreads) {
  at::manual_seed(2);
  const at::Tensor x = at::randn({499, 1700}), dy = at::randn({499, 1700}), w = at::randn({1700});
  std::vector<at::Tensor> dws, dxs;
  for (const int threads : {1, 2, 3, 2}) {
    at::set_num_threads(threads);
    const at::Tensor y = at::empty_like(x), s = at::empty({1, 499}), dx = at::empty_like(x), dw = at::zeros({1700});
    norm_forward({}, y, s, x, w);
    norm_backward({}, dx, dw, dy, x, s, w, false);
    dws.push_back(dw);
    dxs.push_back(dx);
  }
  at::set_num_threads(2);
  for (size_t i = 1; i < dws.size(); ++i) {
    EXPECT_TRUE(same_bits(dws[i], dws[0]));
    EXPECT_TRUE(same_bits(dxs[i], dxs[0]));
  }
}

}  // namespace
}  // namespace hearth::ops::test
