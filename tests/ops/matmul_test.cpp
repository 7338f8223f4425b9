// SPDX-License-Identifier: Apache-2.0
#include "ops/matmul.h"

#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "compare.h"
#include "ops/cpu/gemm.h"

namespace hearth::ops::test {
namespace {

// This machine's products, and ATen's, which other machines use.
struct Products {
  const char* name;
  void (*matmul)(const at::Tensor&, const at::Tensor&, const at::Tensor&);
  void (*input_gradient)(const at::Tensor&, const at::Tensor&, const at::Tensor&, bool);
  void (*weight_gradient)(const at::Tensor&, const at::Tensor&, const at::Tensor&, bool);
};

constexpr Products kProducts[] = {
    {"Ours", matmul, matmul_input_gradient, matmul_weight_gradient},
    {"Atens", aten::matmul, aten::matmul_input_gradient, aten::matmul_weight_gradient},
};

class Matmul : public testing::TestWithParam<std::tuple<at::ScalarType, Products>> {};

TEST_P(Matmul, AllThreeProductsAgreeWithAutogradOnStridedViews) {
  at::manual_seed(1);
  const auto& [type, products] = GetParam();
  const double tolerance = bound(type, 5e-7);
  const int64_t M = 37, K = 53, N = 29;
  const at::Tensor x = random({M, K}, type), w = random({N, K}, type), dy = random({M, N}, type);
  const at::Tensor x64 = leaf(x), w64 = leaf(w);
  const at::Tensor y64 = x64.matmul(w64.t());
  y64.backward(dy.to(at::kDouble));

  const at::Tensor y = in_wider_rows(at::zeros({M, N}, x.options()));
  products.matmul(y, in_wider_rows(x), w);
  EXPECT_LE(relative_error(y, y64), tolerance);
  EXPECT_TRUE(surroundings_untouched(y));

  const at::Tensor dx = in_wider_rows(at::full_like(x, std::nan("")));
  products.input_gradient(dx, in_wider_rows(dy), w, false);
  EXPECT_LE(relative_error(dx, x64.grad()), tolerance);
  products.input_gradient(dx, dy, w, true);
  EXPECT_LE(relative_error(dx, 2 * x64.grad()), bound(type, 5e-7, 1.5));  // half was rounded before the sum
  EXPECT_TRUE(surroundings_untouched(dx));

  const at::Tensor flat = at::ones({N * K + 32}, sum_type(type)), dw = flat.narrow(0, 16, N * K).view({N, K});
  products.weight_gradient(dw, in_wider_rows(dy), in_wider_rows(x), true);
  EXPECT_LE(relative_error(dw, w64.grad() + 1), tolerance);
  EXPECT_EQ(flat.narrow(0, 0, 16).sum().item<double>() + flat.narrow(0, N * K + 16, 16).sum().item<double>(), 32);

  // The same bits as a sum that begins at zero.
  const at::Tensor from_zero = at::zeros_like(dw);
  products.weight_gradient(from_zero, dy, x, true);
  dw.fill_(std::nan(""));
  products.weight_gradient(dw, in_wider_rows(dy), in_wider_rows(x), false);
  EXPECT_TRUE(dw.equal(from_zero));
  EXPECT_EQ(flat.narrow(0, 0, 16).sum().item<double>() + flat.narrow(0, N * K + 16, 16).sum().item<double>(), 32);
}

// ATen's products on a CPU need not have this property.
TEST(MatmulEdge, ProductsAreTheSameBitForBitForOneThreadAndTwo) {
  at::manual_seed(2);
  const int64_t M = 700, K = 300, N = 900;
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16}) {
    if (!(type == at::kFloat ? gemm_is_preferred<float>() : gemm_is_preferred<c10::BFloat16>())) continue;
    const at::Tensor x = random({M, K}, type), w = random({N, K}, type), dy = random({M, N}, type);
    std::vector<at::Tensor> results[2];
    for (const int threads : {1, 2}) {
      at::set_num_threads(threads);
      const at::Tensor y = at::zeros({M, N}, type), dx = at::ones({M, K}, type), dw = at::ones({N, K});
      matmul(y, x, w);
      matmul_input_gradient(dx, dy, w, true);
      matmul_weight_gradient(dw, dy, x, true);
      results[threads - 1] = {y, dx, dw};
    }
    for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(same_bits(results[0][i], results[1][i])) << type << i;
  }
}

TEST(MatmulEdge, AFewRowsOrColumnsGiveWhatManyGive) {
  at::manual_seed(3);
  for (const auto& [M, N] :
       std::vector<std::pair<int64_t, int64_t>>{{1, 40}, {3, 40}, {4, 40}, {40, 1}, {40, 4}, {0, 5}}) {
    const at::Tensor a = random({M, 70}, at::kFloat), b = random({N, 70}, at::kFloat), c = at::zeros({M, N});
    matmul(c, a, b);
    EXPECT_LE(relative_error(c, a.to(at::kDouble).matmul(b.to(at::kDouble).t())), 5e-7) << M << " " << N;
  }
}

// Small products are added to a large sum: a bfloat16 sum would lose all of them.
TEST(MatmulEdge, WeightGradientsOfBfloat16AddUpInFloat32) {
  const at::Tensor dy = at::ones({1, 3}, at::kBFloat16), x = at::full({1, 5}, 0x1p-10, at::kBFloat16);
  const at::Tensor dw = at::ones({3, 5});
  for (int i = 0; i < 100; ++i) matmul_weight_gradient(dw, dy, x, true);
  EXPECT_TRUE(same_bits(dw, at::full({3, 5}, 1 + 100 * 0x1p-10)));
}

// As many rows as a micro-batch may have positions that count; and sizes that ATen multiplies on all machines.
TEST(MatmulEdge, AWeightGradientReplacesAllElements) {
  at::manual_seed(5);
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16, at::kDouble}) {
    for (const auto& [M, N] : std::vector<std::pair<int64_t, int64_t>>{{0, 6}, {1, 6}, {2000, 6}, {9, 1}, {9, 3}}) {
      const at::Tensor dy = random({M, N}, type), x = random({M, 11}, type);
      const at::Tensor product = dy.to(at::kDouble).t().matmul(x.to(at::kDouble));
      for (const Products& products : kProducts) {
        const at::Tensor dw = at::full({N, 11}, std::nan(""), sum_type(type));
        products.weight_gradient(dw, dy, x, false);
        // Without AVX-512 ATen adds M terms one after another. Rounding errors of random sign (Higham, Accuracy and
        // Stability of Numerical Algorithms, 2.8) add up to 0.41 of 2^-24 sqrt(M): each is uniform, of a growing sum.
        const bool is_ours = &products == &kProducts[0];
        const double of_sum = is_ours ? 0 : 0x1p-25 * std::sqrt(static_cast<double>(M));
        EXPECT_LE(relative_error(dw, product), bound(type, std::max(5e-7, of_sum)))
            << products.name << " " << type << " " << M;
      }
    }
  }
}

// ATen's product is added to the sum some rows at a time.
TEST(MatmulEdge, AWeightGradientOfBfloat16MayBeLarge) {
  at::manual_seed(4);
  const at::Tensor dy = random({50, 200}, at::kBFloat16), x = random({50, 40000}, at::kBFloat16);
  const at::Tensor product = dy.to(at::kDouble).t().matmul(x.to(at::kDouble));
  for (const Products& products : kProducts) {
    const at::Tensor dw = at::ones({200, 40000});
    products.weight_gradient(dw, dy, x, true);
    EXPECT_LE(relative_error(dw, product + 1), bound(at::kBFloat16, 5e-7)) << products.name;
    products.weight_gradient(dw, dy, x, false);
    EXPECT_LE(relative_error(dw, product), bound(at::kBFloat16, 5e-7)) << products.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Matmul,
                         testing::Combine(testing::Values(at::kFloat, at::kDouble, at::kBFloat16),
                                          testing::ValuesIn(kProducts)));

}  // namespace
}  // namespace hearth::ops::test
