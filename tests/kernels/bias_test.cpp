// SPDX-License-Identifier: Apache-2.0
#include "ops/rows.h"

#include <ATen/ops/ones.h>
#include <ATen/ops/zeros_like.h>

#include "device.h"

namespace hearth::kernels::test {
namespace {

class BiasKernel : public DeviceTest {};

TEST_P(BiasKernel, AgreesWithTheCpuInFloat64AlsoOnStridedRows) {
  for (const at::ScalarType type : kTypes) {
    for (const int64_t N : {1, 7, 96, 1000, 2056}) {
      SCOPED_TRACE(fmt::format("{} width {}", c10::toString(type), N));
      const at::Tensor y = random({9, N}, type), bias = random({N}, type), y64 = wide(y).clone();
      ops::add_bias(y64, wide(bias));
      for (const bool strided : {false, true}) {
        const at::Tensor out = strided ? in_wider_rows(y) : y.clone();
        run(table().add_bias(nullptr, type_of(out), rows(out), data<void>(bias)));
        EXPECT_LE(relative_error(out, y64), bound(type, 3e-7));
        EXPECT_TRUE(!strided || surroundings_untouched(out));
      }
    }
  }
}

TEST_P(BiasKernel, TheGradientIsTheSumOfFewAndOfManyRows) {
  for (const at::ScalarType type : kTypes) {
    for (const auto& [T, N] : {std::pair<int64_t, int64_t>{1, 5}, {9, 96}, {65, 33}, {700, 264}, {17000, 8}}) {
      SCOPED_TRACE(fmt::format("{} {} rows of {}", c10::toString(type), T, N));
      const at::Tensor dy = random({T, N}, type), sums = at::ones({N}), sums64 = doubles({N}) + 1;
      ops::bias_gradient(sums64, wide(dy));
      const at::Tensor scratch = floats({table().add_rows_scratch(T, N)});
      run(table().add_rows(nullptr, type_of(dy), data<float>(sums), const_rows(in_wider_rows(dy)),
                           data<float>(scratch)));
      const double terms = (wide(dy).abs().sum(0) + 1).norm().item<double>();
      EXPECT_LE((wide(sums) - sums64).norm().item<double>() / terms, 3e-7);
    }
  }
}

TEST_P(BiasKernel, NoRowsAreNoWork) {
  const at::Tensor none = floats({0, 8}), sums = at::ones({8});
  run(table().add_bias(nullptr, Type::kFloat32, rows(none), data<void>(sums)));
  run(table().add_rows(nullptr, Type::kFloat32, data<float>(sums), const_rows(none), nullptr));
  EXPECT_TRUE(same_bits(sums, at::ones({8})));
}

HEARTH_ON_EACH_DEVICE(BiasKernel);

}  // namespace
}  // namespace hearth::kernels::test
