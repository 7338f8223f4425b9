// SPDX-License-Identifier: Apache-2.0
#include "ops/rows.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/index.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include "compare.h"

namespace hearth::ops::test {
namespace {

TEST(Rows, GatheredRowsComeBackToTheirPlacesAndNoOtherRowChanges) {
  for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kBFloat16}) {
    const at::Tensor x = random({9, 5}, type), index = at::tensor({1, 2, 7}, at::kLong);
    const at::Tensor out = at::empty({3, 5}, x.options());
    gather_rows(out, x, index);
    EXPECT_TRUE(same_bits(out, at::index(x, {index})));

    const at::Tensor back = random({9, 5}, type), before = back.clone();
    scatter_rows(back, out, index);
    for (int64_t row = 0; row < 9; ++row) {
      const bool scattered = row == 1 || row == 2 || row == 7;
      EXPECT_TRUE(same_bits(back[row], scattered ? x[row] : before[row])) << row;
    }
  }
}

TEST(Rows, GatheredWorksOnVectorsOfLabels) {
  const at::Tensor labels = at::arange(10, 20, at::kInt);
  EXPECT_TRUE(same_bits(gathered(labels, at::tensor({0, 9}, at::kLong)), at::tensor({10, 19}, at::kInt)));
}

TEST(Rows, AnotherNumberOfRowsThanIndicesIsRefused) {
  EXPECT_TRUE(refused(
      [] {
        gather_rows(at::zeros({2, 3}), at::zeros({4, 3}), at::tensor({1}, at::kLong));
      },
      "2 rows for 1 indices"));
}

}  // namespace
}  // namespace hearth::ops::test
