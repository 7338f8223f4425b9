// SPDX-License-Identifier: Apache-2.0
#include "data/order/permutation.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <unordered_set>
#include <vector>

#include "support/environment.h"

namespace hearth::data {
namespace {

// Every value exactly once, checked with a bitmap: n is small enough.
bool is_bijection(uint64_t n, uint64_t key) {
  const Permutation permutation(n, key);
  std::vector<bool> seen(n);
  for (uint64_t i = 0; i < n; ++i) {
    const uint64_t value = permutation(i);
    if (value >= n || seen[value]) return false;
    seen[value] = true;
  }
  return true;
}

TEST(Permutation, EveryLengthUpTo2000IsABijection) {
  for (uint64_t n = 1; n <= 2000; ++n) ASSERT_TRUE(is_bijection(n, 0x1234567 * n)) << "n = " << n;
}

TEST(Permutation, PowersOfTwoAndTheirNeighboursAreBijections) {
  for (int k = 1; k <= 18; ++k) {
    for (const uint64_t n : {(uint64_t{1} << k) - 1, uint64_t{1} << k, (uint64_t{1} << k) + 1}) {
      for (const uint64_t key : {uint64_t{0}, ~uint64_t{0}, uint64_t{42}})
        ASSERT_TRUE(is_bijection(n, key)) << "n = " << n << ", key = " << key;
    }
  }
}

// Too long to list: different inputs must give different values below n. The inputs are consecutive and far apart: a
// Feistel network that loses a bit loses it for both.
TEST(Permutation, SampledInputsOfLongRangesNeverCollide) {
  for (int k = 19; k <= 61; k += 6) {
    for (const uint64_t n : {(uint64_t{1} << k) - 1, uint64_t{1} << k, (uint64_t{1} << k) + 1}) {
      const Permutation permutation(n, 7);
      std::unordered_set<uint64_t> values, inputs;
      for (uint64_t i = 0; i < 10'000; ++i) {
        for (const uint64_t input : {i, n - 1 - i, n / 10'007 * i}) {
          if (!inputs.insert(input).second) continue;
          const uint64_t value = permutation(input);
          ASSERT_LT(value, n);
          ASSERT_TRUE(values.insert(value).second) << "n = " << n << ", input = " << input;
        }
      }
    }
  }
}

// Chi-square of counts against a uniform expectation, in standard deviations of its distribution (mean d, variance 2d).
double chi_square_sigmas(const std::vector<int>& counts, double expected, double degrees) {
  double chi = 0;
  for (const int count : counts) chi += (count - expected) * (count - expected) / expected;
  return (chi - degrees) / std::sqrt(2 * degrees);
}

// Over many keys, every input goes to every place equally often, and so do the gaps between neighbours. The lengths are
// on both sides of the list's limit, where a network has the fewest bits.
TEST(Permutation, ShortRangesAreUniformOverKeys) {
  for (const uint64_t n : {2u, 3u, 10u, 63u, 64u, 65u, 100u, 127u, 128u, 129u, 257u}) {
    constexpr int kKeysPerCell = 200;
    const uint64_t keys = kKeysPerCell * n;
    std::vector<int> image(n * n), gap(n);
    for (uint64_t key = 0; key < keys; ++key) {
      const Permutation permutation(n, key * 0x9E3779B97F4A7C15);
      uint64_t previous = permutation(n - 1);
      for (uint64_t i = 0; i < n; ++i) {
        const uint64_t value = permutation(i);
        ++image[i * n + value];
        ++gap[(value + n - previous) % n];
        previous = value;
      }
    }
    const double m = static_cast<double>(n);
    EXPECT_LT(std::abs(chi_square_sigmas(image, kKeysPerCell, (m - 1) * (m - 1))), 5) << "n = " << n;
    // A gap of 0 is impossible; the others are equally likely.
    EXPECT_EQ(gap[0], 0);
    if (n < 3) continue;
    const double expected = static_cast<double>(keys) * m / (m - 1);
    EXPECT_LT(chi_square_sigmas({gap.begin() + 1, gap.end()}, expected, m - 2), 5) << "gaps, n = " << n;
  }
}

// Resumed runs depend on these values: never change. Python computes them from the document alone.
TEST(Permutation, ValuesAreThoseThatTheDocumentDescribes) {
  struct Case {
    uint64_t n, key;
  };
  std::string command = fmt::format("python3 {} permutation", test::source_path("tests/data/order/order_reference.py"));
  std::string expected;
  for (const auto& [n, key] : {Case{1, 5}, Case{10, 1}, Case{63, ~uint64_t{0}}, Case{64, ~uint64_t{0}}, Case{65, 7},
                               Case{1'000'003, 1}, Case{(uint64_t{1} << 40) + 1, 99}, Case{uint64_t{1} << 62, 3}}) {
    command += fmt::format(" {} {}", n, key);
    const Permutation permutation(n, key);
    const uint64_t some = std::min<uint64_t>(n, 20);
    for (uint64_t i = 0; i < some; ++i) expected += fmt::format("{} ", permutation(i));
    for (uint64_t i = n - some; i < n; ++i) expected += fmt::format("{}{}", permutation(i), i + 1 < n ? " " : "\n");
  }
  const test::CommandResult python = test::run_command(command);
  ASSERT_EQ(python.exit_code, 0) << python.output;
  EXPECT_EQ(python.output, expected);
}

TEST(Permutation, ReportsItsSpeed) {
  constexpr uint64_t kLength = 1'000'003, kChunk = 50'000;
  const Permutation permutation(kLength, 5);
  uint64_t sum = 0;
  double best_ns = 1e9;  // the fastest of many chunks: other programs only add time
  for (uint64_t begin = 0; begin < kLength; begin += kChunk) {
    const uint64_t end = std::min(begin + kChunk, kLength);
    const auto start = std::chrono::steady_clock::now();
    for (uint64_t i = begin; i < end; ++i) sum += permutation(i);
    const std::chrono::duration<double, std::nano> elapsed = std::chrono::steady_clock::now() - start;
    best_ns = std::min(best_ns, elapsed.count() / static_cast<double>(end - begin));
  }
  EXPECT_EQ(sum, kLength * (kLength - 1) / 2);  // a bijection's sum
  std::printf("permutation of 1,000,003: %.1f ns a look-up\n", best_ns);
}

}  // namespace
}  // namespace hearth::data
