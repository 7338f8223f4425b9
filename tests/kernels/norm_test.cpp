// SPDX-License-Identifier: Apache-2.0
#include "ops/norm.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros_like.h>

#include "device.h"

namespace hearth::kernels::test {
namespace {

constexpr double kEps = 1e-5;
constexpr double kFloat32 = 3e-7;
constexpr NormKind kKinds[] = {NormKind::kRmsNorm, NormKind::kLayerNorm, NormKind::kNpLayerNorm, NormKind::kRmsNormNeox,
                               NormKind::kRmsNorm1p};

plan::Norm planned(NormKind kind) { return {static_cast<plan::NormType>(kind), kEps}; }
bool is_centred(NormKind kind) { return plan::is_centred(planned(kind).type); }

// One case: inputs of a type and shape, and the results of ops/norm.h in float64 on the same values.
struct Case {
  NormKind kind;
  at::Tensor x, r, w, dy, y, statistics, residual, dx, dw;  // from y on in float64

  Case(NormKind norm_kind, at::ScalarType type, int64_t T, int64_t D) : kind(norm_kind) {
    x = random({T, D}, type) + 0.5;
    r = random({T, D}, type);
    dy = random({T, D}, type);
    residual = random({T, D}, type);
    if (plan::has_weight(planned(kind).type)) w = random({D}, type);
    const at::Tensor h = (x + r).to(at::kDouble);
    y = at::empty_like(h);
    statistics = doubles({is_centred(kind) ? 2 : 1, T});
    ops::norm_forward(planned(kind), y, statistics, h, wide(w));
    dx = at::empty_like(h);
    if (w.defined()) dw = doubles({D});
    ops::norm_backward(planned(kind), dx, dw, dy.to(at::kDouble), h, statistics, wide(w), false);
  }
  float* size_of(const at::Tensor& s) const { return data<float>(s); }
  float* mean_of(const at::Tensor& s) const { return is_centred(kind) ? data<float>(s) + s.size(1) : nullptr; }
};

class NormKernel : public DeviceTest {
 protected:
  void check(const Case& c, bool strided) {
    const auto place = [&](const at::Tensor& t) { return strided ? in_wider_rows(t) : t.clone(); };
    const int64_t T = c.x.size(0), D = c.x.size(1);
    const at::ScalarType type = c.x.scalar_type();
    const at::Tensor h = place(at::zeros_like(c.x)), y = place(at::zeros_like(c.x)), s = floats(c.statistics.sizes());
    run(table().norm_forward(nullptr, type_of(c.x), c.kind, kEps, rows(h), rows(y), c.size_of(s), c.mean_of(s),
                             const_rows(place(c.x)), const_rows(place(c.r)), 1, data<void>(c.w)));
    EXPECT_TRUE(same_bits(h, c.x + c.r));
    const double loosened = is_centred(c.kind) && D == 1 ? 1e-6 : kFloat32;  // as in tests/ops/norm_test.cpp
    EXPECT_LE(relative_error(y, c.y), bound(type, loosened));
    EXPECT_LE(relative_error(s, c.statistics), loosened);

    const at::Tensor dx = place(at::full_like(c.x, 7.0)), dw = c.w.defined() ? at::ones({D}) : at::Tensor();
    const at::Tensor scratch = floats({table().norm_backward_scratch(T, D)});
    const auto backward = [&](const at::Tensor& to, const at::Tensor& dy, bool accumulate) {
      run(table().norm_backward(nullptr, type_of(c.x), c.kind, kEps, rows(to), data<float>(dw), const_rows(dy),
                                const_rows(h), 1, c.size_of(s), c.mean_of(s), data<void>(c.w), accumulate ? 1 : 0,
                                data<float>(scratch)));
    };
    backward(dx, place(c.dy), false);
    // The gradient is a difference of terms, nearly equal if D is small: the error is relative to the first of them.
    const at::Tensor size = c.statistics[0].unsqueeze(1),
                     r = c.kind == NormKind::kRmsNormNeox ? 1 / (size + kEps) : size;
    const double first =
        ((c.w.defined() ? c.dy * (c.kind == NormKind::kRmsNorm1p ? 1 + c.w : c.w) : c.dy) * r).norm().item<double>();
    EXPECT_LE((wide(dx) - c.dx).norm().item<double>() / first, bound(type, kFloat32));
    if (c.w.defined()) {
      const at::Tensor n = (wide(h) - (is_centred(c.kind) ? c.statistics[1].unsqueeze(1) : doubles({1}))) * r;
      const double terms = ((c.dy.to(at::kDouble) * n).abs().sum(0) + 1).norm().item<double>();
      EXPECT_LE((wide(dw) - (c.dw + 1)).norm().item<double>() / terms, kFloat32);
    }
    const at::Tensor accumulated = place(c.residual);
    backward(accumulated, c.dy, true);
    EXPECT_LE((wide(accumulated) - (wide(c.residual) + c.dx)).norm().item<double>() /
                  (first + c.residual.norm().item<double>()),
              bound(type, kFloat32));
    const at::Tensor in_place = place(c.dy);
    backward(in_place, in_place, false);
    EXPECT_TRUE(same_bits(in_place, dx));
    if (!strided) return;
    for (const at::Tensor& view : {h, y, dx, accumulated, in_place}) EXPECT_TRUE(surroundings_untouched(view));
  }
};

TEST_P(NormKernel, AgreesWithTheCpuInFloat64ForEveryKindAndWidth) {
  // Widths of one, two or four packs a thread, or too long for registers, with packs of 16 bytes and without.
  for (const NormKind kind : kKinds) {
    for (const at::ScalarType type : kTypes) {
      for (const int64_t D : {1, 31, 512, 1001, 2064, 5120, 8448, 12288}) {
        SCOPED_TRACE(fmt::format("kind {} {} width {}", static_cast<int>(kind), c10::toString(type), D));
        const Case c(kind, type, D > 600 ? 2 : 9, D);
        check(c, false);
        check(c, true);
      }
    }
  }
}

TEST_P(NormKernel, RowsLongerThanRegistersHoldAreReadAgain) {
  for (const at::ScalarType type : kTypes) check(Case(NormKind::kLayerNorm, type, 2, 33024), false);
}

TEST_P(NormKernel, TheWeightsGradientOfManyRowsIsTheirSum) {
  check(Case(NormKind::kRmsNorm, at::kFloat, 2500, 24), false);
}

TEST_P(NormKernel, WithoutAResidualNothingIsAddedAndYMayBeX) {
  for (const at::ScalarType type : kTypes) {
    const at::Tensor x = random({5, 200}, type), w = random({200}, type), s = floats({5});
    const at::Tensor reference = doubles({5, 200}), in_place = x.clone();
    ops::norm_forward({plan::NormType::kRmsNorm, kEps}, reference, doubles({1, 5}), wide(x), wide(w));
    run(table().norm_forward(nullptr, type_of(x), NormKind::kRmsNorm, kEps, {}, rows(in_place), data<float>(s), nullptr,
                             const_rows(in_place), {}, 1, data<void>(w)));
    EXPECT_LE(relative_error(in_place, reference), bound(type, kFloat32));
  }
}

TEST_P(NormKernel, NanStaysInItsRowAndZerosHaveAGradient) {
  const at::Tensor x = random({4, 40}, at::kFloat), w = at::ones({40}), y = at::empty_like(x), s = floats({4});
  x.select(0, 2)[7] = std::nan("");
  x.select(0, 1).zero_();
  const auto forward = [&](NormKind kind) {
    run(table().norm_forward(nullptr, Type::kFloat32, kind, kEps, {}, rows(y), data<float>(s), nullptr, const_rows(x),
                             {}, 1, data<void>(w)));
  };
  forward(NormKind::kRmsNorm);
  EXPECT_EQ(y.isnan().sum().item<int64_t>(), 40);
  EXPECT_TRUE(y[2].isnan().all().item<bool>());
  forward(NormKind::kRmsNormNeox);
  const at::Tensor dy = random({4, 40}, at::kFloat), dx = at::empty_like(x), dw = at::zeros({40});
  const at::Tensor scratch = floats({table().norm_backward_scratch(4, 40)});
  run(table().norm_backward(nullptr, Type::kFloat32, NormKind::kRmsNormNeox, kEps, rows(dx), data<float>(dw),
                            const_rows(dy), const_rows(x), 1, data<float>(s), nullptr, data<void>(w), 0,
                            data<float>(scratch)));
  EXPECT_LE(relative_error(dx[1], dy[1] / kEps), 1e-6);  // |x| has no derivative at 0: 0 is used, as in PyTorch
}

TEST_P(NormKernel, NoRowsAreNoWork) {
  const at::Tensor none = at::empty({0, 16}), w = at::ones({16}), dw = at::zeros({16});
  run(table().norm_forward(nullptr, Type::kFloat32, NormKind::kRmsNorm, kEps, {}, rows(none), nullptr, nullptr,
                           const_rows(none), {}, 1, data<void>(w)));
  run(table().norm_backward(nullptr, Type::kFloat32, NormKind::kRmsNorm, kEps, rows(none), data<float>(dw),
                            const_rows(none), const_rows(none), 1, nullptr, nullptr, data<void>(w), 1, nullptr));
  EXPECT_EQ(dw.abs().sum().item<float>(), 0);
}

// The heads of a part of each row, with the bits of the same heads as rows of their own.
TEST_P(NormKernel, HeadsInRowsHaveTheBitsOfRows) {
  constexpr int64_t T = 7, N = 3;
  for (const at::ScalarType type : kTypes) {
    for (const int64_t K : {6, 64, 128}) {
      SCOPED_TRACE(fmt::format("{} width {}", c10::toString(type), K));
      const at::Tensor x = random({T * N, K}, type), dy = random({T * N, K}, type), w = random({K}, type);
      const auto heads_of = [&](const at::Tensor& in_rows, int64_t gap) {  // after `gap` other elements of each row
        const at::Tensor wide = at::full({T, gap + N * K}, 3.0, in_rows.options());
        wide.narrow(1, gap, N * K).copy_(in_rows.view({T, N * K}));
        return wide;
      };
      const auto as_rows = [&](const at::Tensor& wide) {
        const int64_t gap = wide.size(1) - N * K;
        const at::Tensor part = wide.narrow(1, gap, N * K);
        return Rows{part.mutable_data_ptr(), T * N, K, part.stride(0)};
      };
      const auto as_const = [&](const at::Tensor& wide) {
        const auto [data, rows, cols, stride] = as_rows(wide);
        return ConstRows{data, rows, cols, stride};
      };
      const auto results = [&](int64_t gap, int64_t heads) {
        const at::Tensor from = heads_of(x, gap), y = heads_of(at::zeros_like(x), 2 * gap), dx = heads_of(dy, gap);
        const at::Tensor s = floats({T * N}), dw = at::zeros({K});
        const at::Tensor scratch = floats({table().norm_backward_scratch(T * N, K)});
        const auto rows_of = [&](const at::Tensor& wide) {
          return heads > 1 ? as_rows(wide) : Rows{wide.mutable_data_ptr(), T * N, K, K};
        };
        const auto const_of = [&](const at::Tensor& wide) {
          return heads > 1 ? as_const(wide) : ConstRows{wide.mutable_data_ptr(), T * N, K, K};
        };
        run(table().norm_forward(nullptr, type_of(x), NormKind::kRmsNorm, kEps, {}, rows_of(y), data<float>(s), nullptr,
                                 const_of(from), {}, heads, data<void>(w)));
        run(table().norm_backward(nullptr, type_of(x), NormKind::kRmsNorm, kEps, rows_of(dx), data<float>(dw),
                                  const_of(dx), const_of(from), heads, data<float>(s), nullptr, data<void>(w), 0,
                                  data<float>(scratch)));
        if (gap > 0) {
          EXPECT_TRUE(y.narrow(1, 0, 2 * gap).eq(3).all().item<bool>());
          EXPECT_TRUE(dx.narrow(1, 0, gap).eq(3).all().item<bool>());
        }
        return std::vector<at::Tensor>{y.narrow(1, 2 * gap, N * K), dx.narrow(1, gap, N * K), s, dw};
      };
      const auto in_rows = results(64, N), alone = results(0, 1);
      for (size_t i = 0; i < alone.size(); ++i) EXPECT_TRUE(same_bits(in_rows[i], alone[i])) << i;
    }
  }
}

HEARTH_ON_EACH_DEVICE(NormKernel);

}  // namespace
}  // namespace hearth::kernels::test
