// SPDX-License-Identifier: Apache-2.0
// Parts of rows, normed with what their ranks add up, against autograd on whole rows.
#include "ops/norm.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include "compare.h"

namespace hearth::ops::test {
namespace {

constexpr double kPartsEps = 1e-6;
constexpr double kPartsError = 3e-7;

struct RowParts {
  std::vector<at::Tensor> x, y, dy, dx, weight, dweight, statistics, dots;
  at::Tensor whole_x, whole_dy, whole_weight;
  int64_t width = 0;
};

// Parts of 1, 7 and 64 elements, as rows within wider ones.
RowParts random_parts(at::ScalarType type, int64_t T) {
  const auto exact = at::TensorOptions().dtype(type == at::kDouble ? at::kDouble : at::kFloat);
  RowParts p;
  for (const int64_t D : {1, 7, 64}) {
    p.x.push_back(in_wider_rows(random({T, D}, type) * (1 + static_cast<double>(D) / 10)));
    p.dy.push_back(in_wider_rows(random({T, D}, type)));
    p.y.push_back(in_wider_rows(at::zeros({T, D}, type)));
    p.dx.push_back(in_wider_rows(at::zeros({T, D}, type)));
    p.weight.push_back(random({D}, type) + 1);
    p.dweight.push_back(at::ones({D}, exact));
    p.statistics.push_back(at::empty({T}, exact));
    p.dots.push_back(at::empty({T}, exact));
    p.width += D;
  }
  p.whole_x = leaf(at::cat(p.x, 1));
  p.whole_dy = at::cat(p.dy, 1).to(at::kDouble);
  p.whole_weight = leaf(at::cat(p.weight));
  return p;
}

// What the ranks do between the two calls.
void add_up(const std::vector<at::Tensor>& summands) {
  at::Tensor sum = summands[0].clone();
  for (size_t i = 1; i < summands.size(); ++i) sum += summands[i];
  for (const at::Tensor& one : summands) one.copy_(sum);
}

class NormParts : public testing::TestWithParam<std::tuple<at::ScalarType, int64_t, plan::NormType>> {
 protected:
  void SetUp() override { at::manual_seed(4); }
};

TEST_P(NormParts, AreThePartsOfTheNormOfWholeRows) {
  const auto [type, T, norm_type] = GetParam();
  const plan::Norm norm = {norm_type, kPartsEps};
  const double one = plan::adds_one(norm_type) ? 1 : 0;
  RowParts p = random_parts(type, T);
  const at::Tensor y = p.whole_x * (p.whole_x.pow(2).mean(-1, true) + kPartsEps).rsqrt() * (p.whole_weight + one);
  y.backward(p.whole_dy);
  for (size_t i = 0; i < p.x.size(); ++i) norm_part_squares(p.statistics[i], p.x[i]);
  add_up(p.statistics);
  for (size_t i = 0; i < p.x.size(); ++i)
    norm_part_forward(norm, p.width, p.y[i], p.statistics[i], p.x[i], p.weight[i]);
  EXPECT_LE(relative_error(at::cat(p.y, 1), y), bound(type, kPartsError));

  for (size_t i = 0; i < p.x.size(); ++i)
    norm_part_dots(norm, p.dots[i], p.dy[i], p.x[i], p.statistics[i], p.weight[i]);
  add_up(p.dots);
  for (size_t i = 0; i < p.x.size(); ++i)
    norm_part_backward(norm, p.width, p.dx[i], p.dweight[i], p.dy[i], p.x[i], p.statistics[i], p.dots[i], p.weight[i]);
  EXPECT_LE(relative_error(at::cat(p.dx, 1), p.whole_x.grad()), bound(type, 2 * kPartsError));
  const double exact = type == at::kDouble ? bound(type, kPartsError) : 2 * kPartsError;
  EXPECT_LE(relative_error(at::cat(p.dweight), p.whole_weight.grad() + 1), exact);
  for (const std::vector<at::Tensor>& views : {p.y, p.dx}) {
    for (const at::Tensor& view : views) EXPECT_TRUE(surroundings_untouched(view));
  }
  // The gradient may be written over what it is made of, with the same bits.
  for (size_t i = 0; i < p.x.size(); ++i) {
    norm_part_backward(norm, p.width, p.dy[i], p.dweight[i], p.dy[i], p.x[i], p.statistics[i], p.dots[i], p.weight[i]);
    EXPECT_TRUE(same_bits(p.dy[i], p.dx[i]));
  }
}

INSTANTIATE_TEST_SUITE_P(Types, NormParts,
                         testing::Combine(testing::Values(at::kFloat, at::kDouble, at::kBFloat16),
                                          testing::Values(1, 5, 1500),
                                          testing::Values(plan::NormType::kRmsNorm, plan::NormType::kRmsNorm1p)));

}  // namespace
}  // namespace hearth::ops::test
