#include "ops/gemm.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <vector>

#include "compare.h"
#include "targets.h"

namespace hearth::ops::test {
namespace {

struct Size {
  int64_t M, N, K;
};

// Every odd size meets every other in one place or another; 513 and more are several blocks of K, the last three
// several stages: in K, in the rows of B, in those of A.
std::vector<Size> sizes() {
  const std::vector<int64_t> odd = {1, 2, 3, 7, 15, 17, 31, 33, 100, 257, 513};
  std::vector<Size> all;
  for (size_t i = 0; i < odd.size(); ++i) {
    for (size_t j = 0; j < odd.size(); ++j) all.push_back({odd[i], odd[j], odd[(i + 3 * j) % odd.size()]});
  }
  all.insert(all.end(), {{1100, 1099, 1030}, {2200, 2150, 512}, {2120, 2130, 512}});
  return all;
}

// An operand [rows, K], with K along the rows of memory or across them, as a view into wider rows.
struct Factor {
  at::Tensor values_RK, stored;
  GemmOperand operand;
  Factor(int64_t rows, int64_t K, bool k_is_contiguous) : values_RK(random({rows, K}, at::kFloat)) {
    store(k_is_contiguous);
  }
  Factor(at::Tensor values, bool k_is_contiguous) : values_RK(std::move(values)) { store(k_is_contiguous); }

 private:
  void store(bool k_is_contiguous) {
    stored = in_wider_rows(k_is_contiguous ? values_RK : values_RK.t());
    operand = {stored.const_data_ptr<float>(), stored.stride(0), k_is_contiguous};
  }
};

void run(const at::Tensor& c, const Factor& a, const Factor& b, bool accumulate) {
  gemm({a.values_RK.size(0), b.values_RK.size(0), a.values_RK.size(1), a.operand, b.operand,
        c.mutable_data_ptr<float>(), c.stride(0), accumulate});
}

at::Tensor exact(const Factor& a, const Factor& b) {
  return at::mm(a.values_RK.to(at::kDouble), b.values_RK.to(at::kDouble).t());
}

TEST(Gemm, AgreesWithFloat64AtEverySizeAndLayoutAndLeavesWhatLiesBesideItsResult) {
  at::manual_seed(1);
  int layout = 0;
  for (const auto& [M, N, K] : sizes()) {
    SCOPED_TRACE(fmt::format("{} x {} x {}", M, N, K));
    const Factor a(M, K, ++layout % 2 == 0), b(N, K, layout % 4 < 2);
    const at::Tensor expected = exact(a, b);
    with_each_target([&] {
      const at::Tensor c = in_wider_rows(at::full({a.values_RK.size(0), b.values_RK.size(0)}, std::nanf("")));
      run(c, a, b, false);
      ASSERT_LE(relative_error(c, expected), 5e-7);
      run(c, a, b, true);
      ASSERT_LE(relative_error(c, 2 * expected), 5e-7);
      ASSERT_TRUE(surroundings_untouched(c));
    });
  }
}

TEST(Gemm, SumsOfWholeNumbersAreExact) {
  with_each_target([] {
    for (const bool k_is_contiguous : {false, true}) {
      const auto whole = [](int64_t rows, int64_t K, int64_t step) {
        return (at::arange(rows * K) * step % 17 - 8).to(at::kFloat).view({rows, K});
      };
      const Factor a(whole(131, 1040, 7), k_is_contiguous), b(whole(77, 1040, 5), !k_is_contiguous);
      const at::Tensor c = at::full({131, 77}, 3.0f);
      run(c, a, b, true);
      EXPECT_EQ(relative_error(c, exact(a, b) + 3), 0);
    }
  });
}

// The order that gemm.h states, by itself. Instruction sets without a fused multiply-add round once more.
TEST(Gemm, EveryElementIsTheStatedSumBitForBitForAnyInstructionSetAndNumberOfThreads) {
  at::manual_seed(2);
  const int64_t M = 150, N = 210, K = 1100, depth = 367;  // three blocks of at most 512
  const Factor a(M, K, true), b(N, K, false);
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
      run(c, a, b, true);
      EXPECT_TRUE(same_bits(c, expected));
    });
  }
}

TEST(Gemm, IsTheSameBitForBitForOneThreadAndTwoAtSizesThatBothShare) {
  at::manual_seed(3);
  for (const auto& [M, N, K] : std::vector<Size>{{1000, 300, 700}, {200, 3000, 513}, {2120, 2130, 515}}) {
    const Factor a(M, K, false), b(N, K, true);
    const at::Tensor one = at::zeros({M, N}), two = at::zeros({M, N});
    at::set_num_threads(1);
    run(one, a, b, true);
    at::set_num_threads(2);
    for (int i = 0; i < 3; ++i) {
      two.zero_();
      run(two, a, b, true);
      EXPECT_TRUE(same_bits(one, two));
    }
  }
}

TEST(Gemm, NanAndInfinityReachTheirRowOrColumnAndNothingElse) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  at::manual_seed(4);
  with_each_target([] {
    for (const bool k_is_contiguous : {false, true}) {
      at::Tensor x = random({41, 67}, at::kFloat), y = random({45, 67}, at::kFloat);
      x[40][66] = std::nanf("");
      x[13][5] = kInfinity;
      y[44][0] = -kInfinity;
      y[3][5] = 0;  // times infinity
      const Factor a(x, k_is_contiguous), b(y, k_is_contiguous);
      const at::Tensor c = at::zeros({41, 45}), expected = exact(a, b);
      run(c, a, b, false);
      EXPECT_TRUE(c.isnan().equal(expected.isnan()));
      EXPECT_TRUE((c == kInfinity).equal(expected == kInfinity));
      EXPECT_TRUE((c == -kInfinity).equal(expected == -kInfinity));
      EXPECT_TRUE(c[13][3].isnan().item<bool>());
      EXPECT_EQ(c.isfinite().sum().item<int64_t>(), 39 * 44);
    }
  });
}

TEST(Gemm, AnEmptySumIsZeroAndAddsNothing) {
  const Factor a(5, 0, true), b(3, 0, true);
  const at::Tensor c = at::full({5, 3}, 2.0f);
  run(c, a, b, true);
  EXPECT_TRUE(same_bits(c, at::full({5, 3}, 2.0f)));
  run(c, a, b, false);
  EXPECT_TRUE(same_bits(c, at::zeros({5, 3})));
  run(c, Factor(0, 4, true), Factor(3, 4, true), false);
}

TEST(Gemm, IsChosenByTheVendorAndTheInstructionSetThatTheSystemNames) {
  std::ifstream cpuinfo("/proc/cpuinfo");
  const std::string text{std::istreambuf_iterator<char>(cpuinfo), {}};
  const auto has = [&](const char* word) { return text.find(word) != std::string::npos; };
  EXPECT_EQ(gemm_is_faster_than_mkl(), has("vendor_id") && !has("GenuineIntel") && has(" avx2 "));
}

}  // namespace
}  // namespace hearth::ops::test
