#include "data/mixture.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "base/error.h"

namespace hearth::data {
namespace {

TEST(Mixture, OneSourceGivesEverySampleInOrder) {
  const double weight = 0.3;
  const Mixture mixture({&weight, 1});
  for (const uint64_t g : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 50}) {
    EXPECT_EQ(mixture.pick(g).source, 0);
    EXPECT_EQ(mixture.pick(g).index, g);
    EXPECT_EQ(mixture.samples_until(0, g), g);
  }
}

TEST(Mixture, EveryPrefixIsWithinOneSampleOfTheRoundedShares) {
  const std::vector<std::vector<double>> cases = {
      {1, 1}, {0.4, 0.44, 0.03, 0.02, 0.1, 0.01}, {1, 65535}, {3, 2, 1e-3, 7}, std::vector<double>(97, 1.0)};
  for (const auto& weights : cases) {
    const Mixture mixture(weights);
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    std::vector<uint64_t> count(weights.size());
    for (uint64_t g = 0; g < 3 * Mixture::kSlots; ++g) {
      const auto [source, index] = mixture.pick(g);
      const auto i = static_cast<size_t>(source);
      ASSERT_EQ(index, count[i]) << "sample " << g;  // each of the source's samples once, in order
      ++count[i];
      const double share = static_cast<double>(mixture.slots(source)) / Mixture::kSlots;
      ASSERT_LT(std::abs(static_cast<double>(count[i]) - share * static_cast<double>(g + 1)), 1 + 1e-9)
          << "sample " << g;
    }
    for (size_t i = 0; i < weights.size(); ++i) {
      const double exact = weights[i] / sum * Mixture::kSlots;
      EXPECT_LT(std::abs(static_cast<double>(mixture.slots(static_cast<int64_t>(i))) - exact), 1);
    }
  }
}

TEST(Mixture, SamplesUntilIsTheFirstPrefixThatHoldsTheCount) {
  const std::vector<double> weights = {5, 2, 1};
  const Mixture mixture(weights);
  for (int64_t source = 0; source < 3; ++source) {
    for (const uint64_t count : {uint64_t{1}, uint64_t{2}, uint64_t{8191}, uint64_t{100'000}}) {
      const uint64_t g = mixture.samples_until(source, count);
      EXPECT_EQ(mixture.pick(g - 1).source, source);
      EXPECT_EQ(mixture.pick(g - 1).index, count - 1);
    }
  }
}

TEST(Mixture, WeightsThatCannotBeAreUserErrors) {
  const auto code = [](std::vector<double> weights) {
    try {
      const Mixture mixture(weights);
    } catch (const Error& e) {
      return e.code();
    }
    return ExitCode::kDone;
  };
  EXPECT_EQ(code({}), ExitCode::kUser);
  EXPECT_EQ(code({1, 0}), ExitCode::kUser);
  EXPECT_EQ(code({1, -1}), ExitCode::kUser);
  EXPECT_EQ(code({1, std::nan("")}), ExitCode::kUser);
  EXPECT_EQ(code({1, INFINITY}), ExitCode::kUser);
  EXPECT_EQ(code({1, 1e-9}), ExitCode::kUser);  // rounds to no slot
}

}  // namespace
}  // namespace hearth::data
