// SPDX-License-Identifier: Apache-2.0
// The kernels of ops/norm.h against the same functions in float64.
#include "ops/norm.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/ones.h>

#include "device.h"

namespace hearth::kernels::test {
namespace {

constexpr double kPartEps = 1e-6;
constexpr double kPartError = 3e-7;

class NormPartKernels : public DeviceTest {
 protected:
  void check(at::ScalarType type, int64_t T, int64_t D, bool strided, NormKind kind = NormKind::kRmsNorm) {
    const plan::Norm norm = {static_cast<plan::NormType>(kind), kPartEps};
    const auto place = [&](const at::Tensor& t) { return strided ? in_wider_rows(t) : t.clone(); };
    const int64_t width = 3 * D;
    const at::Tensor x = random({T, D}, type) + 0.5, dy = random({T, D}, type), w = random({D}, type);
    // What the other ranks add.
    const at::Tensor more = random({T}, at::kDouble).abs() * static_cast<double>(D), other = random({T}, at::kDouble);
    const at::Tensor y64 = doubles({T, D}), dx64 = doubles({T, D}), dw64 = doubles({D}) + 1;
    at::Tensor s64 = doubles({T}), dots64 = doubles({T}), s = floats({T});
    ops::norm_part_squares(s64, wide(x));
    const at::Tensor squares64 = s64.clone();
    s64 += more;
    ops::norm_part_forward(norm, width, y64, s64, wide(x), wide(w));
    ops::norm_part_dots(norm, dots64, wide(dy), wide(x), s64, wide(w));
    dots64 += other;
    ops::norm_part_backward(norm, width, dx64, dw64, wide(dy), wide(x), s64, dots64, wide(w));

    const at::Tensor dots = floats({T}), dw = at::ones({D}), y = place(at::full_like(x, 7.0)),
                     dx = place(at::full_like(x, 7.0)), from = place(x), gradient = place(dy);
    run(table().norm_part_dots(nullptr, type_of(x), kind, data<float>(s), const_rows(from), const_rows(from), nullptr,
                               nullptr));
    EXPECT_LE(relative_error(s, squares64), kPartError);
    s += more.to(at::kFloat);
    run(table().norm_part_forward(nullptr, type_of(x), kind, kPartEps, width, rows(y), data<float>(s), const_rows(from),
                                  data<void>(w)));
    EXPECT_LE(relative_error(y, y64), bound(type, kPartError));
    EXPECT_LE(relative_error(s, s64), kPartError);
    run(table().norm_part_dots(nullptr, type_of(x), kind, data<float>(dots), const_rows(gradient), const_rows(from),
                               data<void>(w), data<float>(s)));
    // Terms of both signs: the error is relative to their sizes.
    const double terms = (wide(dy) * wide(x) * (wide(w) + (plan::adds_one(norm.type) ? 1 : 0)) * s64.unsqueeze(1))
                             .abs()
                             .sum(1)
                             .norm()
                             .item<double>();
    EXPECT_LE((wide(dots) - (dots64 - other)).norm().item<double>() / terms, kPartError);
    dots.copy_(dots64);
    const at::Tensor scratch = floats({table().norm_backward_scratch(T, D)});
    run(table().norm_part_backward(nullptr, type_of(x), kind, width, rows(dx), data<float>(dw), const_rows(gradient),
                                   const_rows(from), data<float>(s), data<float>(dots), data<void>(w),
                                   data<float>(scratch)));
    EXPECT_LE(relative_error(dx, dx64), bound(type, 2 * kPartError));
    const double summands = ((wide(dy) * wide(x) * s64.unsqueeze(1)).abs().sum(0) + 1).norm().item<double>();
    EXPECT_LE((wide(dw) - dw64).norm().item<double>() / summands, kPartError);
    if (!strided) return;
    for (const at::Tensor& view : {y, dx}) EXPECT_TRUE(surroundings_untouched(view));
  }
};

TEST_P(NormPartKernels, AgreeWithTheCpuInFloat64ForEveryWidth) {
  for (const at::ScalarType type : kTypes) {
    for (const int64_t D : {1, 31, 64, 1000, 5120}) {
      SCOPED_TRACE(fmt::format("{} width {}", c10::toString(type), D));
      check(type, D > 600 ? 2 : 9, D, false);
      check(type, D > 600 ? 2 : 9, D, true);
    }
  }
}

TEST_P(NormPartKernels, AgreeWithTheCpuAlsoIfOneIsAddedToTheWeight) {
  for (const at::ScalarType type : kTypes) {
    for (const int64_t D : {31, 64}) check(type, 9, D, false, NormKind::kRmsNorm1p);
  }
}

TEST_P(NormPartKernels, TheWeightsGradientOfManyRowsIsTheirSum) { check(at::kFloat, 2500, 24, false); }

HEARTH_ON_EACH_DEVICE(NormPartKernels);

}  // namespace
}  // namespace hearth::kernels::test
