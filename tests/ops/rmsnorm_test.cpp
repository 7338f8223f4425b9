#include "ops/rmsnorm.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include "compare.h"

namespace hearth::ops::test {
namespace {

constexpr double kEps = 1e-5;
constexpr double kFloat32 = 3e-7;  // a few roundings; the sums of squares average theirs out

class Rmsnorm : public testing::TestWithParam<std::tuple<at::ScalarType, int64_t, int64_t>> {
 protected:
  void SetUp() override { at::manual_seed(1); }
  at::ScalarType type() const { return std::get<0>(GetParam()); }
  int64_t T() const { return std::get<1>(GetParam()); }
  int64_t D() const { return std::get<2>(GetParam()); }
};

at::Tensor oracle(const at::Tensor& x, const at::Tensor& w) { return x * (x.pow(2).mean(-1, true) + kEps).rsqrt() * w; }

TEST_P(Rmsnorm, ForwardAgreesWithAtenAlsoOnStridedRows) {
  const at::Tensor x = random({T(), D()}, type()), w = random({D()}, type());
  const at::Tensor y = in_wider_rows(at::zeros_like(x)), rstd = at::empty({T()}, x.options());
  rmsnorm_forward(y, rstd, in_wider_rows(x), w, kEps);
  const at::Tensor x64 = x.to(at::kDouble);
  EXPECT_LE(relative_error(y, oracle(x64, w.to(at::kDouble))), bound(type(), kFloat32));
  EXPECT_LE(relative_error(rstd, (x64.pow(2).mean(-1) + kEps).rsqrt()), bound(type(), kFloat32));
  EXPECT_TRUE(surroundings_untouched(y));
}

TEST_P(Rmsnorm, FusedResidualEqualsAddThenNormBitForBit) {
  const at::Tensor x = random({T(), D()}, type()), r = random({T(), D()}, type()), w = random({D()}, type());
  const at::Tensor h = at::empty_like(x), y = at::empty_like(x), rstd = at::empty({T()}, x.options());
  add_rmsnorm_forward(h, y, rstd, x, r, w, kEps);
  const at::Tensor sum = x + r, y2 = at::empty_like(x), rstd2 = at::empty_like(rstd);
  rmsnorm_forward(y2, rstd2, sum, w, kEps);
  EXPECT_TRUE(same_bits(h, sum));
  EXPECT_TRUE(same_bits(y, y2));
  EXPECT_TRUE(same_bits(rstd, rstd2));

  const at::Tensor in_place = x.clone();
  add_rmsnorm_forward(in_place, y, rstd, in_place, r, w, kEps);
  EXPECT_TRUE(same_bits(in_place, sum));
}

TEST_P(Rmsnorm, BackwardAgreesWithAutograd) {
  const at::Tensor x = random({T(), D()}, type()), w = random({D()}, type()), dy = random({T(), D()}, type());
  const at::Tensor x64 = leaf(x), w64 = leaf(w);
  oracle(x64, w64).backward(dy.to(at::kDouble));

  const at::Tensor y = at::empty_like(x), rstd = at::empty({T()}, x.options());
  rmsnorm_forward(y, rstd, x, w, kEps);
  const at::Tensor dx = at::full_like(x, 7.0), dw = at::ones_like(w);
  rmsnorm_backward(dx, dw, in_wider_rows(dy), in_wider_rows(x), rstd, w, false);
  // The gradient is a difference of two terms, nearly equal when D is 1: roundings are measured against the first.
  const double size = (dy * w * rstd.unsqueeze(1)).to(at::kDouble).norm().item<double>();
  const auto error = [&](const at::Tensor& a, const at::Tensor& b) { return (a - b).norm().item<double>() / size; };
  EXPECT_LE(error(dx.to(at::kDouble), x64.grad()), bound(type(), kFloat32));
  EXPECT_LE(relative_error(dw, w64.grad() + 1), bound(type(), kFloat32));  // added to what was there

  const at::Tensor residual = random({T(), D()}, type()), accumulated = residual.clone();
  rmsnorm_backward(accumulated, dw, dy, x, rstd, w, true);
  const at::Tensor expected = residual.to(at::kDouble) + x64.grad();
  EXPECT_LE((accumulated - expected).norm().item<double>() / (size + residual.norm().item<double>()),
            bound(type(), kFloat32));

  const at::Tensor in_place = dy.clone();
  rmsnorm_backward(in_place, dw, in_place, x, rstd, w, false);
  EXPECT_TRUE(same_bits(in_place, dx));
}

INSTANTIATE_TEST_SUITE_P(Shapes, Rmsnorm,
                         testing::Combine(testing::Values(at::kFloat, at::kDouble),
                                          testing::Values<int64_t>(1, 37, 300),
                                          testing::Values<int64_t>(1, 8, 31, 512, 1001)));

TEST(RmsnormEdge, NoRowsIsNoWork) {
  const at::Tensor none = at::empty({0, 16}), w = at::ones({16}), dw = at::zeros({16}), rstd = at::empty({0});
  rmsnorm_forward(none, rstd, none, w, kEps);
  rmsnorm_backward(none, dw, none, none, rstd, w, true);
  EXPECT_EQ(dw.abs().sum().item<float>(), 0);
}

TEST(RmsnormEdge, NanStaysInItsRow) {
  const at::Tensor x = at::randn({4, 40}), w = at::ones({40}), y = at::empty_like(x), rstd = at::empty({4});
  x.select(0, 2)[7] = std::nan("");
  rmsnorm_forward(y, rstd, x, w, kEps);
  const at::Tensor nan_rows = y.isnan().all(1);
  EXPECT_TRUE(nan_rows.equal(at::tensor({0, 0, 1, 0}).to(at::kBool)));
  EXPECT_EQ(y.isnan().sum().item<int64_t>(), 40);
}

TEST(RmsnormEdge, BitsDoNotDependOnTheNumberOfThreads) {
  at::manual_seed(2);
  const at::Tensor x = at::randn({999, 320}), dy = at::randn({999, 320}), w = at::randn({320});
  std::vector<at::Tensor> dws, dxs;
  for (const int threads : {1, 2, 3, 2}) {
    at::set_num_threads(threads);
    const at::Tensor y = at::empty_like(x), rstd = at::empty({999}), dx = at::empty_like(x), dw = at::zeros({320});
    rmsnorm_forward(y, rstd, x, w, kEps);
    rmsnorm_backward(dx, dw, dy, x, rstd, w, false);
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
