// SPDX-License-Identifier: Apache-2.0
#include "ops/tensor.h"

#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <array>
#include <bit>
#include <cmath>

#include "compare.h"

namespace hearth::ops::test {
namespace {

TEST(Tensor, EveryDTypeMapsToTorchsAndBack) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kBFloat16, DType::kFloat16, DType::kInt64,
                            DType::kInt32, DType::kInt16, DType::kInt8, DType::kUInt8, DType::kBool}) {
    const at::Tensor t = zeros({2, 3}, dtype);
    EXPECT_EQ(dtype_of(t), dtype);
    EXPECT_EQ(static_cast<int64_t>(bytes_of(t).size()), 6 * dtype_size(dtype));
  }
}

TEST(Tensor, ViewsShareTheFlatBuffer) {
  const at::Tensor flat = zeros({20}, DType::kFloat32);
  const at::Tensor view = view_as(flat, 4, {2, 3});
  view.fill_(1);
  EXPECT_EQ(flat.sum().item<float>(), 6);
  EXPECT_TRUE(flat.slice(0, 4, 10).equal(at::ones({6})));
}

TEST(Tensor, HostValuesAreCopied) {
  std::array<int32_t, 3> values{1, -2, 3};
  const at::Tensor t = from_int32(values);
  values[0] = 9;
  EXPECT_TRUE(t.equal(at::tensor({1, -2, 3}, at::kInt)));
}

TEST(Tensor, CopyConvertsAndRefusesOtherShapes) {
  const at::Tensor to = empty({2}, DType::kFloat32);
  copy_(to, at::tensor({1.5, 2.5}, at::kDouble));
  EXPECT_EQ(to[1].item<float>(), 2.5f);
  EXPECT_TRUE(refused([&] { copy_(to, at::zeros({1})); }, "sizes"));
}

// IEEE 754: a bfloat16 is the upper half of a float32, rounded to nearest, ties to even; NaN stays NaN.
TEST(Tensor, CastsOfFlatBuffersRoundAsIeeeSaysAtOddSizes) {
  at::manual_seed(1);
  for (const int64_t n : {1, 7, 33, 1001, 100003}) {
    const at::Tensor wide = random({n + 1}, at::kFloat).narrow(0, 1, n);  // like a rank's slice, not aligned
    float* values = wide.mutable_data_ptr<float>();
    const float special[] = {INFINITY, -0.0f, NAN, 1 + 0x1p-8f, 1 + 0x3p-8f, -3.4e38f, 1 + 0x1.00002p-8f};
    for (int64_t i = 0; i < std::min<int64_t>(n, 7); ++i) values[n - 1 - i] = special[i];
    const at::Tensor narrow = at::zeros({n}, at::kBFloat16), back = at::zeros({n});
    copy_(narrow, wide);
    copy_(back, narrow);
    for (int64_t i = 0; i < n; ++i) {
      const auto bits = std::bit_cast<uint32_t>(values[i]);
      const auto rounded = static_cast<uint32_t>(narrow.const_data_ptr<c10::BFloat16>()[i].x);
      const auto widened = std::bit_cast<uint32_t>(back.const_data_ptr<float>()[i]);
      if (std::isnan(values[i])) {
        ASSERT_TRUE(std::isnan(back.const_data_ptr<float>()[i]));
        continue;
      }
      const uint32_t cut = bits & 0xFFFF, up = cut > 0x8000 || (cut == 0x8000 && (bits >> 16 & 1) == 1) ? 1 : 0;
      ASSERT_EQ(rounded, (bits >> 16) + up) << values[i];
      ASSERT_EQ(widened, rounded << 16) << values[i];
    }
  }
}

TEST(Arena, TensorsAreAlignedDisjointAndCounted) {
  Arena arena(1 << 20);
  const at::Tensor a = arena.take({3, 5}, DType::kFloat32), b = arena.take({7}, DType::kFloat64),
                   c = arena.take({1}, DType::kUInt8);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(a.const_data_ptr()) % (2 << 20), 0u);
  for (const at::Tensor& t : {a, b, c}) EXPECT_EQ(reinterpret_cast<uintptr_t>(t.const_data_ptr()) % 64, 0u);
  EXPECT_EQ(arena.used(), Arena::bytes_for({3, 5}, DType::kFloat32) + Arena::bytes_for({7}, DType::kFloat64) + 64);
  a.fill_(1);
  b.fill_(2);
  EXPECT_EQ(a.sum().item<float>(), 15);
  EXPECT_EQ(b.sum().item<double>(), 14);
}

TEST(Arena, RewindReusesTheMemory) {
  Arena arena(4096);
  const int64_t mark = arena.used();
  const void* first = arena.take({1024}, DType::kFloat32).const_data_ptr();
  arena.rewind(mark);
  EXPECT_EQ(arena.take({1024}, DType::kFloat32).const_data_ptr(), first);
}

TEST(Arena, TensorsOutliveIt) {
  at::Tensor kept;
  {
    Arena arena(1 << 20);
    kept = arena.take({1000}, DType::kFloat32);
  }
  kept.fill_(3);
  EXPECT_EQ(kept.sum().item<float>(), 3000);
}

TEST(Arena, MoreThanItsCapacityIsRefused) {
  Arena arena(128);
  EXPECT_TRUE(refused([&] { arena.take({64}, DType::kFloat32); }, "arena of 128 bytes: 0 used, 256 more"));
}

}  // namespace
}  // namespace hearth::ops::test
