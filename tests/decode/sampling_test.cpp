// SPDX-License-Identifier: Apache-2.0
#include "decode/sampling.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "base/random.h"

namespace hearth::decode {
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

TEST(Sampling, MinPKeepsThoseNearTheMostLikely) {
  const auto share = shares({.min_p = 0.6});  // at least 0.24
  EXPECT_EQ(share.size(), 2u);
  EXPECT_NEAR(share.at(1), 4.0 / 7, 2e-4);
  EXPECT_NEAR(share.at(3), 3.0 / 7, 2e-4);
  EXPECT_EQ(shares({.min_p = 0.4}).size(), 3u);
  EXPECT_EQ(shares({.min_p = 1}).size(), 1u);
  // After the temperature: the squares 16, 9, 4 and 1, of which two have at least 4.8.
  EXPECT_EQ(shares({.temperature = 0.5, .min_p = 0.3}).size(), 2u);
  EXPECT_EQ(shares({.min_p = 0.3}).size(), 3u);
  // After top_p, too: the smaller part decides.
  EXPECT_EQ(shares({.top_p = 0.3, .min_p = 0.3}).size(), 1u);
  EXPECT_NEAR(shares({.top_k = 2, .min_p = 0.3}).at(3), 3.0 / 7, 2e-4);
}

// The rules on a whole list, sorted, with sums from the most likely token on.
int64_t plain_sample(const std::vector<double>& logits, const SamplingOptions& o, double uniform) {
  std::vector<std::pair<double, int64_t>> tokens;  // the weight with its sign changed, and the id
  const double largest = *std::max_element(logits.begin(), logits.end());
  for (size_t i = 0; i < logits.size(); ++i)
    tokens.emplace_back(-std::exp((logits[i] - largest) / o.temperature), static_cast<int64_t>(i));
  std::sort(tokens.begin(), tokens.end());
  const auto total = [&] {
    double sum = 0;
    for (const auto& [weight, id] : tokens) sum -= weight;
    return sum;
  };
  if (o.top_k > 0 && o.top_k < std::ssize(tokens)) tokens.resize(static_cast<size_t>(o.top_k));
  const double all = total();
  size_t kept = 0;
  for (double sum = 0; kept < tokens.size() && (kept == 0 || sum < o.top_p * all); ++kept) sum -= tokens[kept].first;
  tokens.resize(kept);
  std::erase_if(tokens, [&](const auto& token) { return -token.first < o.min_p; });
  double left = uniform * total();
  for (const auto& [weight, id] : tokens)
    if ((left += weight) < 0) return id;
  return tokens.back().second;
}

// A vocabulary of 2,000, of which only the first part is sorted in most draws; some logits are equal.
TEST(Sampling, ALongVocabularyGivesWhatAWholeSortGives) {
  const RandomKey key = random_key(3, "sampling");
  std::vector<double> logits;
  for (uint64_t i = 0; i < 2000; ++i) logits.push_back(std::floor(40 * random_uniform(key, i)) / 4);
  const SamplingOptions options[] = {{},
                                     {.temperature = 3},
                                     {.temperature = 50},
                                     {.top_k = 700},
                                     {.top_p = 0.9},
                                     {.temperature = 3, .top_k = 1500, .top_p = 0.99, .min_p = 0.01}};
  for (size_t i = 0; i < std::size(options); ++i) {
    for (uint64_t draw = 0; draw < 40; ++draw) {
      const double uniform = random_uniform(key, 10000 + draw);
      ASSERT_EQ(sample_token(logits, options[i], uniform), plain_sample(logits, options[i], uniform))
          << i << " " << draw;
    }
  }
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

// A training that diverged: texts are made beside it, and must not end it.
TEST(Sampling, LogitsThatAreNoNumbersComeLast) {
  const double nan = std::nan("");
  for (const double temperature : {0.0, 1.0}) {
    for (const double uniform : {0.0, 0.5, 0.999}) {
      const SamplingOptions options{.temperature = temperature};
      EXPECT_EQ(sample_token(std::vector<double>{nan, 1, nan}, options, uniform), 1);
      EXPECT_LT(sample_token(std::vector<double>(1000, nan), options, uniform), 1000);
    }
  }
  std::vector<double> some(5000);
  for (size_t i = 0; i < some.size(); ++i) some[i] = i % 3 == 0 ? nan : static_cast<double>((i * 7919) % 5003) / 1e3;
  for (int i = 0; i < 100; ++i) EXPECT_NE(sample_token(some, {.top_k = 2000}, (i + 0.5) / 100) % 3, 0);
}

}  // namespace
}  // namespace hearth::decode
