// SPDX-License-Identifier: Apache-2.0
#include "ops/muon.h"

#include <ATen/ops/diag.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linalg_svd.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <cmath>

#include "compare.h"
#include "ops/step_decision.h"
#include "targets.h"

namespace hearth::ops::test {
namespace {

struct MatrixSize {
  int64_t rows, columns;
};
constexpr MatrixSize kMuonSizes[] = {{24, 24}, {12, 40}, {40, 12}, {129, 70}, {3, 50}, {50, 1}, {1, 1}};

NewtonSchulzScratch newton_schulz_scratch(int64_t M, int64_t N, at::ScalarType type) {
  const auto garbage = [&](int64_t numel) { return at::full({numel}, std::nan(""), type); };
  const int64_t shorter = std::min(M, N);
  return {garbage(M * N + 5), garbage(M * N + 5), garbage(shorter * shorter), garbage(shorter * shorter)};
}

// The singular values of an update after `steps` of the polynomial.
at::Tensor after_polynomial(const at::Tensor& update, int64_t steps) {
  auto [U, s, V] = at::linalg_svd(update.to(at::kDouble), /*full_matrices=*/false);
  s = s / update.to(at::kDouble).norm();
  for (int64_t i = 0; i < steps; ++i) s = 3.4445 * s - 4.775 * s.pow(3) + 2.0315 * s.pow(5);
  return at::matmul(at::matmul(U, at::diag(s)), V);
}

at::Tensor held_back_decision() {
  const StepDecision step({.on_nan = kernels::Reaction::kSkip, .skip_limit = 5}, at::kCPU);
  step.decide(at::zeros({2}, at::kDouble), at::full({1}, std::nan(""), at::kDouble), 0, 1);
  return step.decision();
}

struct MuonOfType : testing::TestWithParam<at::ScalarType> {};

TEST_P(MuonOfType, TheSingularValuesOfAMatrixTakeThePolynomialsSteps) {
  const at::ScalarType type = GetParam(), sums = sum_type(type);
  const double largest = type == at::kDouble ? 1e-12 : type == at::kFloat ? 2e-5 : 4e-2;
  at::manual_seed(1);
  with_each_target([&] {
    for (const auto [M, N] : kMuonSizes) {
      for (const int64_t steps : {1, 5}) {
        const at::Tensor update = random({M, N}, sums), expected = after_polynomial(update, steps);
        update.mul_(1e3);  // the size does not matter
        orthogonalize(update, steps, decided(1), newton_schulz_scratch(M, N, type));
        EXPECT_LE(relative_error(update, expected), largest) << M << " x " << N << ", " << steps << " steps";
        // Rounded products show that products have the scratch's type.
        if (type == at::kBFloat16 && M > 1 && N > 1) {
          EXPECT_GE(relative_error(update, expected), 1e-4);
        }
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Muon, MuonOfType, testing::Values(at::kFloat, at::kDouble, at::kBFloat16));

TEST(Muon, FiveStepsMakeAMatrixNearlyOrthogonal) {
  at::manual_seed(2);
  const at::Tensor update = random({60, 40}, at::kDouble);
  orthogonalize(update, 5, decided(1), newton_schulz_scratch(60, 40, at::kDouble));
  const at::Tensor s = std::get<1>(at::linalg_svd(update, false));
  EXPECT_GE(s.min().item<double>(), 0.68);
  EXPECT_LE(s.max().item<double>(), 1.21);
}

TEST(Muon, ZeroStaysZero) {
  const at::Tensor update = at::zeros({6, 9});
  orthogonalize(update, 5, decided(1), newton_schulz_scratch(6, 9, at::kFloat));
  EXPECT_TRUE(update.eq(0).all().item<bool>());
}

// One pass over elements in pieces gives the same bits: a rank's part is such a piece.
TEST(Muon, TheMomentumIsTorchsLerpForAnyPieces) {
  constexpr int64_t kN = 40003, kCut = 1234;
  at::manual_seed(3);
  for (const at::ScalarType type : {at::kDouble, at::kFloat}) {
    for (const bool nesterov : {false, true}) {
      const at::Tensor momentum = random({kN}, type), gradient = random({kN}, type), update = at::empty({kN}, type);
      const at::Tensor pieces = momentum.clone(), of_pieces = update.clone();
      const at::Tensor scaled = gradient * 0.25, mean = momentum.lerp(scaled, 1 - 0.9);
      muon_momentum(update, momentum, gradient, {0.9, nesterov}, decided(3, 0.25));
      EXPECT_LE(relative_error(momentum, mean), bound(type, 1e-7));
      EXPECT_LE(relative_error(update, nesterov ? scaled.lerp(mean, 0.9) : mean), bound(type, 2e-7));
      for (const auto& [begin, end] : {std::pair{int64_t{0}, kCut}, std::pair{kCut, kN}}) {
        const auto part = [begin = begin, end = end](const at::Tensor& x) { return x.narrow(0, begin, end - begin); };
        muon_momentum(part(of_pieces), part(pieces), part(gradient), {0.9, nesterov}, decided(3, 0.25));
      }
      EXPECT_TRUE(same_bits(pieces, momentum) && same_bits(of_pieces, update));
    }
  }
}

// The update is of the mean before it is rounded.
TEST(Muon, AMomentumInBfloat16IsTheRoundedOneOfFloat32) {
  at::manual_seed(4);
  const at::Tensor start = random({1001}, at::kBFloat16), gradient = random({1001}, at::kFloat);
  const at::Tensor narrow = start.clone(), wide = start.to(at::kFloat);
  const at::Tensor update = at::empty({1001}), wide_update = at::empty({1001});
  muon_momentum(update, narrow, gradient, {}, decided(1));
  muon_momentum(wide_update, wide, gradient, {}, decided(1));
  EXPECT_TRUE(same_bits(update, wide_update));
  EXPECT_TRUE(same_bits(narrow, wide.to(at::kBFloat16)));
}

TEST_P(MuonOfType, AnUpdateIsAppliedWithDecayAndRoundedOnce) {
  const at::ScalarType type = GetParam();
  at::manual_seed(5);
  const at::Tensor parameter = random({1003}, type), update = random({1003}, sum_type(type));
  const at::Tensor expected = parameter.to(at::kDouble) * (1 - 0.125) - 0.25 * update.to(at::kDouble);
  muon_apply(parameter, update, 0.25, 0.125, decided(1));
  EXPECT_LE(relative_error(parameter, type == at::kBFloat16 ? expected.to(type) : expected), bound(type, 1e-7, 0.01));
}

TEST(Muon, AStepThatIsHeldBackChangesNothing) {
  const at::Tensor decision = held_back_decision(), bad = at::full({12}, std::nanf(""));
  const at::Tensor update = at::ones({12}), momentum = at::ones({12}), parameter = at::ones({12});
  muon_momentum(update, momentum, bad, {}, decision);
  orthogonalize(update.view({3, 4}), 5, decision, newton_schulz_scratch(3, 4, at::kFloat));
  muon_apply(parameter, bad, 0.1, 0.5, decision);
  for (const at::Tensor& t : {update, momentum, parameter}) EXPECT_TRUE(t.eq(1).all().item<bool>());
}

}  // namespace
}  // namespace hearth::ops::test
