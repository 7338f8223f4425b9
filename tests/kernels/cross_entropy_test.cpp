// SPDX-License-Identifier: Apache-2.0
#include "ops/cross_entropy.h"

#include <ATen/ops/full.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/tensor.h>

#include "device.h"

namespace hearth::kernels::test {
namespace {

class CrossEntropyKernel : public DeviceTest {
 protected:
  // Adds to sums_2 [2]; scale and weights may be undefined.
  void cross_entropy(const at::Tensor& sums_2, const at::Tensor& logits, const at::Tensor& labels,
                     const at::Tensor& weights, const at::Tensor& scale, double z_factor) {
    const at::Tensor scratch = doubles({2 * logits.size(0)});
    run(table().cross_entropy(nullptr, type_of(logits), rows(logits), data<int32_t>(labels), data<float>(weights),
                              data<double>(scale), z_factor, data<double>(scratch), data<double>(sums_2)));
  }
  static at::Tensor int32(std::initializer_list<int32_t> values) {
    return at::tensor(at::ArrayRef<int32_t>(values), at::TensorOptions().dtype(at::kInt));
  }
};

TEST_P(CrossEntropyKernel, SumsAndGradientAgreeWithTheCpuInFloat64) {
  const int64_t C = 13;
  const at::Tensor weights = at::rand({C}), scale = at::full({1}, 0.37, at::kDouble);
  for (const at::ScalarType type : kTypes) {
    for (const int64_t V : {2, 258, 5000, 17000}) {
      {
        const double z_factor = V == 258 ? 0 : 0.01;
        SCOPED_TRACE(fmt::format("{} vocabulary {} z {}", c10::toString(type), V, z_factor));
        const at::Tensor logits = 4 * random({C, V}, type);
        const at::Tensor labels = at::randint(V, {C}, at::TensorOptions().dtype(at::kInt));
        labels[3].fill_(ops::kIgnore);
        labels[C - 1].fill_(ops::kIgnore);
        for (const at::Tensor& given : {at::Tensor(), weights}) {
          const at::Tensor gradient = wide(logits).clone();
          const at::Tensor plain = doubles({2});
          ops::cross_entropy_forward_backward(plain, gradient, labels, scale, given, z_factor);
          const ops::CrossEntropy expected = ops::read_sums(plain);

          const at::Tensor read = in_wider_rows(logits), sums = at::full({2}, 1.0, at::kDouble);
          cross_entropy(sums, read, labels, given, {}, z_factor);
          EXPECT_TRUE(same_bits(read, logits) && surroundings_untouched(read));
          for (const bool strided : {false, true}) {
            const at::Tensor written = strided ? in_wider_rows(logits) : logits.clone(), again = doubles({2});
            cross_entropy(again, written, labels, given, scale, z_factor);
            EXPECT_LE(relative_error(written, gradient), bound(type, 3e-7));
            EXPECT_EQ(written[3].abs().sum().item<double>(), 0);
            EXPECT_NEAR(again[0].item<double>() / expected.loss, 1, 3e-7);
            EXPECT_NEAR(again[1].item<double>() / expected.z_squares, 1, 3e-7);
            EXPECT_NEAR(again[0].item<double>() + 1, sums[0].item<double>(), 1e-6);  // added to the former value
            EXPECT_TRUE(!strided || (surroundings_untouched(written)));
          }
        }
      }
    }
  }
}

TEST_P(CrossEntropyKernel, NanAndInfinityPoisonTheirRowAndTheSumsAlone) {
  const at::Tensor scale = at::full({1}, 1.0, at::kDouble), labels = int32({1, 2, 3});
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    for (const int64_t V : {50, 64}) {
      const at::Tensor logits = random({3, V}, at::kFloat), sums = doubles({2});
      logits[1][40] = bad;
      cross_entropy(sums, logits, labels, {}, scale, 0);
      EXPECT_TRUE(sums.isnan().all().item<bool>());
      EXPECT_TRUE(logits.isnan().any(1).equal(at::tensor({0, 1, 0}).to(at::kBool)));
      EXPECT_EQ(logits.isnan().sum().item<int64_t>(), V);
    }
  }
  const at::Tensor nothing = at::full({1, 8}, -INFINITY), sums = doubles({2});
  cross_entropy(sums, nothing, int32({0}), {}, scale, 0);
  EXPECT_TRUE(std::isnan(sums[0].item<double>()) && nothing.isnan().all().item<bool>());
}

TEST_P(CrossEntropyKernel, MinusInfinityIsAProbabilityOfZeroAndLargeLogitsDoNotOverflow) {
  const at::Tensor logits = at::zeros({1, 4}), sums = doubles({2});
  logits[0][3] = -INFINITY;
  cross_entropy(sums, logits, int32({0}), {}, at::full({1}, 3.0, at::kDouble), 0);
  EXPECT_NEAR(sums[0].item<double>(), std::log(3.0), 1e-6);
  EXPECT_TRUE(logits.allclose(at::tensor({-2.0f, 1.0f, 1.0f, 0.0f}).view({1, 4})));
  const at::Tensor large = at::tensor({1e30f, 1e4f, -1e30f}).view({1, 3}), none = doubles({2});
  cross_entropy(none, large, int32({0}), {}, {}, 0);
  EXPECT_EQ(none[0].item<double>(), 0);
}

// Two parts, each of which the CPU computes in float64 from the same statistics.
TEST_P(CrossEntropyKernel, OfAPartOfTheVocabularyAgreesWithTheCpu) {
  const int64_t C = 7, V = 301;
  const double z_factor = 0.01;
  const at::Tensor labels = at::randint(V, {C}, at::TensorOptions().dtype(at::kInt)), weights = at::rand({C});
  labels[2].fill_(ops::kIgnore);
  const at::Tensor scale = at::full({1}, 0.37, at::kDouble), scratch = doubles({2 * C});
  for (const at::ScalarType type : kTypes) {
    const at::Tensor logits = 4 * random({C, V}, type), statistics = doubles({2, C, 2}), expected = doubles({2, C, 2});
    const std::vector<plan::VocabularyPart> parts = {{0, V}, {256, V}};
    const std::vector<at::Tensor> of = {logits.narrow(1, 0, 256), logits.narrow(1, 256, V - 256)};
    for (int64_t r = 0; r < 2; ++r) {
      const auto part = static_cast<size_t>(r);
      run(table().cross_entropy_statistics(nullptr, type_of(logits), rows(of[part]), data<int32_t>(labels),
                                           parts[part].first, data<double>(statistics[r])));
      ops::cross_entropy_statistics(expected[r], wide(of[part]).contiguous(), labels, parts[part]);
    }
    EXPECT_LE(relative_error(statistics, expected), 3e-7);
    for (size_t r = 0; r < 2; ++r) {
      const at::Tensor gradient = wide(of[r]).contiguous(), plain = doubles({2}), sums = doubles({2}),
                       read = doubles({2});
      ops::vocabulary_parallel_cross_entropy(plain, gradient, labels, expected, parts[r], scale, weights, z_factor);
      const auto call = [&](const at::Tensor& x, const at::Tensor& to, const double* scale_1) {
        run(table().vocabulary_parallel_cross_entropy(nullptr, type_of(x), rows(x), data<int32_t>(labels),
                                                      data<double>(statistics), 2, parts[r].first, data<float>(weights),
                                                      scale_1, z_factor, data<double>(scratch), data<double>(to)));
      };
      const at::Tensor written = in_wider_rows(of[r].contiguous()), before = written.clone();
      call(written, read, nullptr);
      EXPECT_TRUE(same_bits(written, before));
      call(written, sums, data<double>(scale));
      EXPECT_TRUE(same_bits(sums, read) && surroundings_untouched(written));
      EXPECT_LE(relative_error(sums, plain), 3e-7);
      EXPECT_LE(relative_error(written, gradient), bound(type, 3e-7));
      EXPECT_EQ(written[2].abs().sum().item<double>(), 0);
    }
  }
}

TEST_P(CrossEntropyKernel, NoRowsAndIgnoredRowsAddNothing) {
  const at::Tensor sums = at::full({2}, 5.0, at::kDouble), scale = at::full({1}, 1.0, at::kDouble);
  cross_entropy(sums, at::empty({0, 7}), at::empty({0}, at::kInt), {}, scale, 0);
  const at::Tensor logits = at::full({2, 7}, std::nan(""));
  cross_entropy(sums, logits, int32({-100, -100}), {}, scale, 0);
  EXPECT_TRUE(sums.eq(5).all().item<bool>() && logits.eq(0).all().item<bool>());
}
HEARTH_ON_EACH_DEVICE(CrossEntropyKernel);

}  // namespace
}  // namespace hearth::kernels::test
