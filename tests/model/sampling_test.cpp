#include "model/sampling.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <vector>

namespace hearth::model {
namespace {

const std::vector<double> kLogits = {std::log(0.1), std::log(0.4), std::log(0.2), std::log(0.3)};

// How often each id comes out for evenly spaced uniforms: the distribution itself, without noise.
std::map<int64_t, double> shares(const SamplingOptions& options) {
  constexpr int kDraws = 10000;
  std::map<int64_t, double> result;
  for (int i = 0; i < kDraws; ++i) result[sample_token(kLogits, options, (i + 0.5) / kDraws)] += 1.0 / kDraws;
  return result;
}

TEST(Sampling, TemperatureOneDrawsFromTheSoftmax) {
  const auto share = shares({});
  EXPECT_NEAR(share.at(0), 0.1, 2e-4);
  EXPECT_NEAR(share.at(1), 0.4, 2e-4);
  EXPECT_NEAR(share.at(2), 0.2, 2e-4);
  EXPECT_NEAR(share.at(3), 0.3, 2e-4);
}

TEST(Sampling, TemperatureDividesTheLogits) {
  const auto share = shares({.temperature = 0.5});  // probabilities go with the square: 1, 16, 4, 9 of 30
  EXPECT_NEAR(share.at(0), 1.0 / 30, 2e-4);
  EXPECT_NEAR(share.at(1), 16.0 / 30, 2e-4);
}

TEST(Sampling, TemperatureZeroIsTheMostLikelyToken) {
  for (const double uniform : {0.0, 0.5, 0.999999}) EXPECT_EQ(sample_token(kLogits, {.temperature = 0}, uniform), 1);
}

TEST(Sampling, TopKKeepsTheKMostLikely) {
  const auto share = shares({.top_k = 2});
  EXPECT_EQ(share.size(), 2u);
  EXPECT_NEAR(share.at(1), 4.0 / 7, 2e-4);
  EXPECT_NEAR(share.at(3), 3.0 / 7, 2e-4);
}

TEST(Sampling, TopPKeepsTheFewestThatReachIt) {
  EXPECT_EQ(shares({.top_p = 0.65}).size(), 2u);  // 0.4 + 0.3
  EXPECT_EQ(shares({.top_p = 0.75}).size(), 3u);
  EXPECT_EQ(shares({.top_p = 0}).size(), 1u);
  EXPECT_NEAR(shares({.top_p = 0.65}).at(3), 3.0 / 7, 2e-4);
}

TEST(Sampling, TemperatureComesFirstThenTopKThenTopPOfWhatIsLeft) {
  // 0.4, 0.3 and 0.2 of 0.9: two of them have 0.78. Among all four, the same two have 0.7.
  EXPECT_EQ(shares({.top_k = 3, .top_p = 0.75}).size(), 2u);
  EXPECT_EQ(shares({.top_p = 0.75}).size(), 3u);
  // The squares 16, 9, 4 and 1 of 30: two have 0.83.
  EXPECT_EQ(shares({.temperature = 0.5, .top_p = 0.8}).size(), 2u);
  EXPECT_EQ(shares({.top_p = 0.8}).size(), 3u);
  EXPECT_NEAR(shares({.temperature = 0.5, .top_k = 3, .top_p = 0.8}).at(1), 16.0 / 25, 2e-4);
  EXPECT_EQ(shares({.top_k = 100}).size(), 4u);  // more than there are: all
}

TEST(Sampling, EqualLogitsAreOrderedById) {
  const std::vector<double> equal(5, 1.0);
  EXPECT_EQ(sample_token(equal, {.temperature = 0}, 0.9), 0);
  EXPECT_EQ(sample_token(equal, {}, 0.0), 0);
  EXPECT_EQ(sample_token(equal, {}, 0.5), 2);
  EXPECT_EQ(sample_token(equal, {}, std::nextafter(1.0, 0.0)), 4);
  // The share of an id is [begin, end): its end belongs to the next.
  const std::vector<double> two(2, 1.0);
  EXPECT_EQ(sample_token(two, {}, 0.5), 1);
  EXPECT_EQ(sample_token(two, {}, std::nextafter(0.5, 0.0)), 0);
}

}  // namespace
}  // namespace hearth::model
