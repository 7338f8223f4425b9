// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include "device.h"

namespace hearth::kernels::test {
namespace {

class Float8Kernel : public DeviceTest {
 protected:
  struct Scaled {
    at::Tensor bytes, scale;
  };
  Scaled by_rows(const at::Tensor& x) {
    const Scaled out = {at::full(x.sizes(), 0xAA, at::kByte), floats({x.size(0)})};
    run(table().float8_rows(nullptr, type_of(x), data<uint8_t>(out.bytes), data<float>(out.scale), const_rows(x)));
    return out;
  }
  Scaled by_columns(const at::Tensor& x) {
    const Scaled out = {at::full({x.size(1), x.size(0)}, 0xAA, at::kByte), floats({x.size(1)})};
    run(table().float8_columns(nullptr, type_of(x), data<uint8_t>(out.bytes), data<float>(out.scale), const_rows(x)));
    return out;
  }
  std::pair<Scaled, Scaled> by_both(const at::Tensor& x) {
    const Scaled rows = {at::full(x.sizes(), 0xAA, at::kByte), floats({x.size(0)})};
    const Scaled columns = {at::full({x.size(1), x.size(0)}, 0xAA, at::kByte), floats({x.size(1)})};
    run(table().float8_rows_and_columns(nullptr, type_of(x), data<uint8_t>(rows.bytes), data<float>(rows.scale),
                                        data<uint8_t>(columns.bytes), data<float>(columns.scale), const_rows(x)));
    return {rows, columns};
  }
  // By LibTorch: torchao's scales, whose inverses are multiplied with, and LibTorch's cast.
  static Scaled expected(const at::Tensor& x) {
    const at::Tensor scale = (std::get<0>(x.to(at::kFloat).abs().max(1)) / 448).clamp_min(1e-12);
    return {
        (x.to(at::kFloat) * scale.reciprocal().unsqueeze(1)).clamp(-448, 448).to(at::kFloat8_e4m3fn).view(at::kByte),
        scale};
  }
};

TEST_P(Float8Kernel, EveryRoundingIsLibTorchs) {
  // One row with scale 1: every float8, the middles between neighbours, and values just above and below the middles.
  const at::Tensor bytes = at::arange(0, 127, at::TensorOptions().dtype(at::kByte));
  const at::Tensor values = bytes.view(at::kFloat8_e4m3fn).to(at::kFloat);
  const at::Tensor halfway = (values.slice(0, 1) + values.slice(0, 0, 126)) / 2;
  at::Tensor x = at::cat({values, halfway, halfway * (1 + 0x1p-20), halfway * (1 - 0x1p-20)});
  x = at::cat({x, -x}).unsqueeze(0).contiguous();
  const Scaled out = by_rows(x);
  EXPECT_EQ(out.scale.item<float>(), 1);
  EXPECT_TRUE(same_bits(out.bytes[0], x[0].to(at::kFloat8_e4m3fn).view(at::kByte)));
}

TEST_P(Float8Kernel, RowsAndColumnsAreScaledToTheLargestValue) {
  for (const at::ScalarType type : kTypes) {
    for (const auto& [R, C] :
         {std::pair<int64_t, int64_t>{1, 1}, {3, 17}, {70, 64}, {65, 200}, {600, 129}, {260, 384}}) {
      SCOPED_TRACE(fmt::format("{} {} x {}", c10::toString(type), R, C));
      const at::Tensor x = random({R, C}, type) * at::tensor({0.001f, 1.0f, 50.0f}).to(type)[R % 3];
      const Scaled want = expected(x), want_columns = expected(x.t().contiguous());
      for (const at::Tensor& given : {x, in_wider_rows(x)}) {
        const Scaled out = by_rows(given), columns = by_columns(given);
        EXPECT_TRUE(same_bits(out.scale, want.scale) && same_bits(out.bytes, want.bytes));
        EXPECT_TRUE(same_bits(columns.scale, want_columns.scale) && same_bits(columns.bytes, want_columns.bytes));
        const auto [rows_too, columns_too] = by_both(given);
        EXPECT_TRUE(same_bits(rows_too.scale, want.scale) && same_bits(rows_too.bytes, want.bytes));
        EXPECT_TRUE(same_bits(columns_too.scale, want_columns.scale) &&
                    same_bits(columns_too.bytes, want_columns.bytes));
      }
    }
  }
}

// Bytes of rows that begin at no multiple of 4 are written one by one.
TEST_P(Float8Kernel, RowsMayBeginAnywhere) {
  const at::Tensor x = random({130, 64}, at::kBFloat16);
  const Scaled want = expected(x), want_columns = expected(x.t().contiguous());
  const at::Tensor bytes = at::full({x.numel() + 1}, 0xAA, at::kByte);
  const Scaled rows = {bytes.narrow(0, 1, x.numel()).view(x.sizes()), floats({x.size(0)})};
  const Scaled columns = {at::full({x.size(1), x.size(0)}, 0xAA, at::kByte), floats({x.size(1)})};
  run(table().float8_rows_and_columns(nullptr, type_of(x), data<uint8_t>(rows.bytes), data<float>(rows.scale),
                                      data<uint8_t>(columns.bytes), data<float>(columns.scale), const_rows(x)));
  EXPECT_TRUE(same_bits(rows.bytes, want.bytes) && same_bits(columns.bytes, want_columns.bytes));
}

TEST_P(Float8Kernel, ZerosHaveTheSmallestScaleAndNanTurnsItsRowIntoNan) {
  const at::Tensor x = at::zeros({2, 20});
  x[1][3] = NAN;
  const Scaled out = by_rows(x), columns = by_columns(x.t().contiguous());
  for (const Scaled& s : {out, columns, by_both(x).first, by_both(x.t().contiguous()).second}) {
    EXPECT_EQ(s.scale[0].item<float>(), 1e-12f);
    EXPECT_TRUE(std::isnan(s.scale[1].item<float>()));
    EXPECT_TRUE(s.bytes[0].eq(0).all().item<bool>());
    EXPECT_TRUE(s.bytes[1].bitwise_and(0x7F).eq(0x7F).all().item<bool>());
  }
}
HEARTH_ON_EACH_DEVICE(Float8Kernel);

}  // namespace
}  // namespace hearth::kernels::test
