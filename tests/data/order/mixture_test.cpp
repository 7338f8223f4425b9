// SPDX-License-Identifier: Apache-2.0
#include "data/order/mixture.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "base/error.h"
#include "support/environment.h"

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
    const auto slots = Mixture::slots_of(weights);
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    std::vector<uint64_t> count(weights.size());
    for (uint64_t g = 0; g < 3 * Mixture::kSlots; ++g) {
      const auto [source, index] = mixture.pick(g);
      const auto i = static_cast<size_t>(source);
      ASSERT_EQ(index, count[i]) << "sample " << g;  // each of the source's samples once, in order
      ++count[i];
      const double share = static_cast<double>(slots[i]) / Mixture::kSlots;
      ASSERT_LT(std::abs(static_cast<double>(count[i]) - share * static_cast<double>(g + 1)), 1 + 1e-9)
          << "sample " << g;
    }
    for (size_t i = 0; i < weights.size(); ++i) {
      const double exact = weights[i] / sum * Mixture::kSlots;
      EXPECT_LT(std::abs(static_cast<double>(slots[i]) - exact), 1);
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

// A slow restatement: the shares of each segment hold from its beginning, and each source counts on.
TEST(Mixture, SegmentsChangeTheSharesWithoutRepeatingOrLosingASample) {
  const std::vector<MixtureSegment> segments = {
      {0, {3, 1, 0}}, {1000, {0, 1, 0}}, {70'000, {1, 1, 2}}, {70'001, {0, 0.5, 0.5}}, {200'000, {1, 0, 0}}};
  const Mixture mixture(segments);
  std::vector<uint64_t> count(3);
  size_t at = 0;
  std::vector<uint64_t> begin(3);
  for (uint64_t g = 0; g < 300'000; ++g) {
    if (at + 1 < segments.size() && g == segments[at + 1].first_sample) {
      ++at;
      begin = count;
    }
    const auto [source, index] = mixture.pick(g);
    const auto i = static_cast<size_t>(source);
    ASSERT_EQ(index, count[i]) << g;
    ASSERT_GT(segments[at].weights[i], 0) << g;
    if (g % 4999 == 0) {
      for (size_t s = 0; s < 3; ++s) ASSERT_EQ(mixture.count(static_cast<int64_t>(s), g), count[s]) << g;
    }
    ++count[i];
    if (g % 4999 == 0) {
      ASSERT_EQ(mixture.samples_until(source, count[i]), g + 1);
    }
    const auto slots = Mixture::slots_of(segments[at].weights);
    const double share = static_cast<double>(slots[i]) / Mixture::kSlots;
    const auto samples = static_cast<double>(g + 1 - segments[at].first_sample);
    ASSERT_LT(std::abs(static_cast<double>(count[i] - begin[i]) - share * samples), 1 + 1e-9) << g;
  }
  EXPECT_EQ(mixture.samples_until(1, count[1] + 1), Mixture::kNever);
  EXPECT_NE(mixture.samples_until(0, count[0] + 1), Mixture::kNever);
}

TEST(Mixture, ACountThatASegmentCompletesIsReachedInIt) {
  const Mixture mixture(std::vector<MixtureSegment>{{0, {1, 1}}, {10, {0, 1}}});
  EXPECT_EQ(mixture.count(0, 10), 5u);
  EXPECT_EQ(mixture.pick(8).source, 0);
  EXPECT_EQ(mixture.samples_until(0, 5), 9u);  // the next segment does not count
}

// docs/data_format.md, computed by Python.
void expect_as_described(const std::vector<MixtureSegment>& segments, uint64_t count, const std::string& arguments) {
  const Mixture mixture(segments);
  const test::CommandResult python = test::run_command(fmt::format(
      "python3 {} mixture {} {} 2>&1", test::source_path("tests/data/order/order_reference.py"), count, arguments));
  std::string expected;
  for (uint64_t g = 0; g < count; ++g) {
    const auto [source, index] = mixture.pick(g);
    expected += fmt::format("{} {}\n", source, index);
  }
  EXPECT_EQ(python.exit_code, 0);
  EXPECT_TRUE(python.output == expected) << python.output.substr(0, 300) << "\n...\n" << expected.substr(0, 300);
}

TEST(Mixture, PicksAreThoseThatTheDocumentDescribes) {
  expect_as_described(
      {{0, {0.4, 0.44, 0.03, 0.02, 0.1, 0.01}}, {70'000, {0, 1, 0, 1, 2, 0}}, {70'003, {1, 1, 1, 1, 1, 1}}}, 140'000,
      "0 0.4,0.44,0.03,0.02,0.1,0.01 70000 0,1,0,1,2,0 70003 1,1,1,1,1,1");
  // Deadlines that are rounded down would already change the second sample.
  expect_as_described({{0, {2, 6, 9, 7}}}, 2000, "0 2,6,9,7");
}

// A source may join a run later without changing earlier samples.
TEST(Mixture, ASourceWithoutWeightChangesNothingForTheOthers) {
  const Mixture two(std::vector<double>{1, 2}), three(std::vector<double>{1, 0, 2});
  for (uint64_t g = 0; g < 100'000; ++g) {
    ASSERT_EQ(two.pick(g).index, three.pick(g).index);
    ASSERT_EQ(two.pick(g).source * 2, three.pick(g).source);
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
  EXPECT_EQ(code({0, 0}), ExitCode::kUser);
  EXPECT_EQ(code({1, 0}), ExitCode::kDone);
  EXPECT_EQ(code({1, -1}), ExitCode::kUser);
  EXPECT_EQ(code({1, std::nan("")}), ExitCode::kUser);
  EXPECT_EQ(code({1, INFINITY}), ExitCode::kUser);
  EXPECT_EQ(code({1, 1e-9}), ExitCode::kUser);  // rounds to no slot
}

}  // namespace
}  // namespace hearth::data
