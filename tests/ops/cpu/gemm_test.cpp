// SPDX-License-Identifier: Apache-2.0
#include "ops/cpu/gemm.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "ops/compare.h"
#include "ops/targets.h"

namespace hearth::ops::test {
namespace {

struct Size {
  int64_t M, N, K;
};

// Every odd size is combined with every other. 513 and more have several blocks of K. The last five have several
// stages: in K, in the rows of B, and in those of A. The other two have sums that wait to be rounded: in K, and in the
// rows of the own operand.
std::vector<Size> sizes() {
  const std::vector<int64_t> odd = {1, 2, 3, 7, 15, 17, 31, 33, 100, 257, 513};
  std::vector<Size> all;
  for (size_t i = 0; i < odd.size(); ++i) {
    for (size_t j = 0; j < odd.size(); ++j) all.push_back({odd[i], odd[j], odd[(i + 3 * j) % odd.size()]});
  }
  all.insert(all.end(),
             {{1100, 1099, 1030}, {2200, 2150, 512}, {2120, 2130, 512}, {45, 52, 60001}, {1451, 1460, 1027}});
  return all;
}

template <class T>
constexpr at::ScalarType kType = c10::CppTypeToScalarType<T>::value;

// An operand [rows, K], with K along the rows of memory or across them, as a view of wider rows.
template <class T>
struct Factor {
  at::Tensor values_RK, stored;
  GemmOperand<T> operand;
  Factor(int64_t rows, int64_t K, bool k_is_contiguous) : Factor(random({rows, K}, kType<T>), k_is_contiguous) {}
  Factor(const at::Tensor& values, bool k_is_contiguous) : values_RK(values.to(kType<T>)) {
    stored = in_wider_rows(k_is_contiguous ? values_RK : values_RK.t());
    operand = {stored.const_data_ptr<T>(), stored.stride(0), k_is_contiguous};
  }
};

template <class C, class T>
void run(const at::Tensor& c, const Factor<T>& a, const Factor<T>& b, bool accumulate) {
  gemm(Gemm<T, C>{a.values_RK.size(0), b.values_RK.size(0), a.values_RK.size(1), a.operand, b.operand,
                  c.mutable_data_ptr<C>(), c.stride(0), accumulate});
}

template <class T>
at::Tensor exact(const Factor<T>& a, const Factor<T>& b) {
  return at::mm(a.values_RK.to(at::kDouble), b.values_RK.to(at::kDouble).t());
}

// The factors of gemm(), and its result.
template <class Multiplied, class Written>
struct Kind {
  using T = Multiplied;
  using C = Written;
};

template <class Kind>
class GemmOf : public testing::Test {};
using Kinds = testing::Types<Kind<float, float>, Kind<c10::BFloat16, c10::BFloat16>, Kind<c10::BFloat16, float>>;
struct KindNames {
  template <class K>
  static std::string GetName(int) {
    const auto name = [](at::ScalarType type) { return std::string(c10::toString(type)); };
    return name(kType<typename K::T>) + "To" + name(kType<typename K::C>);
  }
};
TYPED_TEST_SUITE(GemmOf, Kinds, KindNames);

TYPED_TEST(GemmOf, AgreesWithFloat64AtEverySizeAndLayoutAndLeavesWhatLiesBesideItsResult) {
  using T = typename TypeParam::T;
  using C = typename TypeParam::C;
  // A sum of 60,001 random products in blocks.
  constexpr double kFloat32 = 1e-6;
  at::manual_seed(1);
  int layout = 0;
  for (const auto& [M, N, K] : sizes()) {
    SCOPED_TRACE(fmt::format("{} x {} x {}", M, N, K));
    const Factor<T> a(M, K, ++layout % 2 == 0), b(N, K, layout % 4 < 2);
    const at::Tensor expected = exact(a, b), nothing = at::full({M, N}, std::nan(""), kType<C>);
    with_each_target(
        [&] {
          const at::Tensor c = in_wider_rows(nothing);
          run<C>(c, a, b, false);
          ASSERT_LE(relative_error(c, expected), bound(kType<C>, kFloat32));
          run<C>(c, a, b, true);
          ASSERT_LE(relative_error(c, 2 * expected),
                    bound(kType<C>, kFloat32, 1.5));  // half was rounded before the sum
          ASSERT_TRUE(surroundings_untouched(c));
        },
        M * N * K < 100'000'000);
  }
}

// Products of whole numbers below 9 and their sums are exact in any order. A bfloat16 result is rounded once, at the
// end.
TYPED_TEST(GemmOf, SumsOfWholeNumbersAreExact) {
  using T = typename TypeParam::T;
  using C = typename TypeParam::C;
  with_each_target([] {
    for (const bool k_is_contiguous : {false, true}) {
      const auto whole = [](int64_t rows, int64_t K, int64_t step) {
        return (at::arange(rows * K) * step % 17 - 8).to(at::kFloat).view({rows, K});
      };
      const Factor<T> a(whole(131, 1041, 7), k_is_contiguous), b(whole(77, 1041, 5), !k_is_contiguous);
      const at::Tensor c = at::full({131, 77}, 3.0f, kType<C>);
      run<C>(c, a, b, true);
      EXPECT_TRUE(same_bits(c, (exact(a, b) + 3).to(kType<C>)));
    }
  });
}

// The order of sums that gemm.h states, as a plain loop. Instruction sets without a fused multiply-add round once more.
TEST(Gemm, EveryElementInFloat32IsTheStatedSumBitForBitForAnyInstructionSetAndNumberOfThreads) {
  at::manual_seed(2);
  const int64_t M = 150, N = 210, K = 1700, depth = 567;  // three blocks of at most 768
  const Factor<float> a(M, K, true), b(N, K, false);
  const at::Tensor begin = random({M, N}, at::kFloat), expected = begin.clone();
  const auto x = a.values_RK.accessor<float, 2>(), y = b.values_RK.accessor<float, 2>();
  auto e = expected.accessor<float, 2>();
  for (int64_t m = 0; m < M; ++m) {
    for (int64_t n = 0; n < N; ++n) {
      for (int64_t k0 = 0; k0 < K; k0 += depth) {
        float sum = 0;
        for (int64_t k = k0; k < std::min(K, k0 + depth); ++k) sum = std::fma(x[m][k], y[n][k], sum);
        e[m][n] += sum;
      }
    }
  }
  for (const int threads : {1, 2, 1}) {
    at::set_num_threads(threads);
    with_each_target([&] {
      if ((hwy::SupportedTargets() & (HWY_SSSE3 | HWY_SSE4)) != 0) return;
      const at::Tensor c = begin.clone();
      run<float>(c, a, b, true);
      EXPECT_TRUE(same_bits(c, expected));
    });
  }
}

TYPED_TEST(GemmOf, IsTheSameBitForBitForOneThreadAndTwoAtSizesThatBothShare) {
  using T = typename TypeParam::T;
  using C = typename TypeParam::C;
  at::manual_seed(3);
  const std::vector<Size> several = {{1000, 300, 700}, {200, 3000, 513}, {2120, 2130, 515}, {1500, 1460, 1100}};
  for (const auto& [M, N, K] : several) {
    const Factor<T> a(M, K, false), b(N, K, true);
    const at::Tensor one = at::zeros({M, N}, kType<C>), two = at::zeros_like(one);
    at::set_num_threads(1);
    run<C>(one, a, b, true);
    at::set_num_threads(2);
    for (int i = 0; i < 3; ++i) {
      two.zero_();
      run<C>(two, a, b, true);
      EXPECT_TRUE(same_bits(one, two));
    }
  }
}

TYPED_TEST(GemmOf, NanAndInfinityReachTheirRowOrColumnAndNothingElse) {
  using T = typename TypeParam::T;
  using C = typename TypeParam::C;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  at::manual_seed(4);
  with_each_target([] {
    for (const bool k_is_contiguous : {false, true}) {
      at::Tensor x = random({41, 67}, at::kFloat), y = random({45, 67}, at::kFloat);
      x[40][66] = std::nanf("");
      x[13][5] = kInfinity;
      y[44][0] = -kInfinity;
      y[3][5] = 0;  // times infinity
      const Factor<T> a(x, k_is_contiguous), b(y, k_is_contiguous);
      const at::Tensor c = at::zeros({41, 45}, kType<C>), expected = exact(a, b);
      run<C>(c, a, b, false);
      EXPECT_TRUE(c.isnan().equal(expected.isnan()));
      EXPECT_TRUE((c == kInfinity).equal(expected == kInfinity));
      EXPECT_TRUE((c == -kInfinity).equal(expected == -kInfinity));
      EXPECT_TRUE(c[13][3].isnan().template item<bool>());
      EXPECT_EQ(c.isfinite().sum().template item<int64_t>(), 39 * 44);
    }
  });
}

TYPED_TEST(GemmOf, AnEmptySumIsZeroAndAddsNothing) {
  using T = typename TypeParam::T;
  using C = typename TypeParam::C;
  const Factor<T> a(5, 0, true), b(3, 0, true);
  const at::Tensor two = at::full({5, 3}, 2.0f, kType<C>), c = two.clone();
  run<C>(c, a, b, true);
  EXPECT_TRUE(same_bits(c, two));
  run<C>(c, a, b, false);
  EXPECT_TRUE(same_bits(c, at::zeros_like(two)));
  run<C>(c, Factor<T>(0, 4, true), Factor<T>(3, 4, true), false);
}

TEST(Gemm, ABfloat16IsTheSumInFloat32RoundedOnce) {
  at::manual_seed(6);
  for (const auto& [M, N, K] : std::vector<Size>{{37, 70, 90}, {70, 37, 2051}, {45, 52, 60001}, {1451, 1460, 1027}}) {
    SCOPED_TRACE(fmt::format("{} x {} x {}", M, N, K));
    const Factor<c10::BFloat16> a(M, K, true), b(N, K, false);
    const at::Tensor sum = at::zeros({M, N}), rounded = at::zeros({M, N}, at::kBFloat16);
    with_each_target(
        [&] {
          run<float>(sum, a, b, false);
          run<c10::BFloat16>(rounded, a, b, false);
          ASSERT_TRUE(same_bits(rounded, sum.to(at::kBFloat16)));
          run<c10::BFloat16>(rounded, a, b, true);
          ASSERT_TRUE(same_bits(rounded, (sum.to(at::kBFloat16).to(at::kFloat) + sum).to(at::kBFloat16)));
        },
        M * N * K < 100'000'000);
  }
}

// One instruction multiplies pairs. Its results differ from those of floats only in the last bits.
TEST(Gemm, Bfloat16GoesByPairsWhereTheProcessorHasThem) {
  if (!has_bf16_dot()) GTEST_SKIP() << "this processor has no AVX512_BF16";
  at::manual_seed(5);
  const Factor<c10::BFloat16> a(64, 700, true), b(64, 700, true);
  const at::Tensor pairs = at::zeros({64, 64}), widened = at::zeros({64, 64});
  use_bf16_dot_for_test(true);
  run<float>(pairs, a, b, false);
  use_bf16_dot_for_test(false);
  run<float>(widened, a, b, false);
  use_bf16_dot_for_test(std::nullopt);
  EXPECT_FALSE(same_bits(pairs, widened));
  EXPECT_LE(relative_error(pairs, widened), 5e-7);
}

TEST(Gemm, IsChosenByWhatTheSystemSaysOfTheProcessor) {
  std::ifstream cpuinfo("/proc/cpuinfo");
  const std::string text{std::istreambuf_iterator<char>(cpuinfo), {}};
  const auto has = [&](const char* word) { return text.find(word) != std::string::npos; };
  EXPECT_EQ(gemm_is_preferred<float>(), has(" avx2 "));
  EXPECT_EQ(gemm_is_preferred<c10::BFloat16>(), has(" avx2 ") && !has(" amx_bf16 "));
  EXPECT_EQ(has_bf16_dot(), has(" avx512_bf16 "));
  EXPECT_EQ(uses_bf16_dot(), has(" avx512_bf16 ") && !(has("GenuineIntel") && has(" avx512_fp16 ")));
}

}  // namespace
}  // namespace hearth::ops::test
