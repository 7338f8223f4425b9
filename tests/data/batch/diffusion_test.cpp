// SPDX-License-Identifier: Apache-2.0
#include "data/batch/diffusion.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "base/error.h"
#include "data/batch/hiding_loader.h"
#include "data/batch/label_rule.h"

namespace hearth::data {
namespace {

constexpr int64_t kModelRows = 259;  // bytes, BOS, EOS, and a row for the mask
constexpr int32_t kHiddenId = 258;

struct Diffused {
  std::vector<int32_t> tokens, labels{}, counted{};
  std::vector<float> weights{};
  int64_t hidden() const { return std::ranges::count(tokens, kHiddenId); }
};

Diffused diffused(const Diffusion& diffusion, std::vector<int32_t> tokens, uint64_t g, uint64_t seed = 1,
                  const std::vector<int32_t>& starts = {}, std::vector<float> weights = {}) {
  Diffused row{std::move(tokens)};
  row.labels.resize(row.tokens.size());
  row.counted.resize(row.tokens.size());
  row.weights = std::move(weights);
  row.weights.resize(row.tokens.size(), 1);
  diffuse_row(diffusion, seed, g, {starts, row.tokens, row.labels, row.weights, row.counted});
  return row;
}

Diffusion plain() { return {.random_length_prob = 0, .mask_id = kHiddenId}; }

// Half of it are special tokens.
std::vector<int32_t> mixed_ids(size_t size) {
  std::vector<int32_t> tokens(size);
  for (size_t i = 0; i < size; ++i) tokens[i] = static_cast<int32_t>(i % 2 == 0 ? 'a' + i * i % 26 : 256 + i % 4 / 2);
  return tokens;
}

TEST(Diffusion, HiddenTokensAreLabelsAndEveryTokenCounts) {
  const std::vector<int32_t> before = mixed_ids(500);
  for (uint64_t g = 0; g < 20; ++g) {
    const Diffused row = diffused(plain(), before, g);
    EXPECT_EQ(row.counted, before);
    for (size_t i = 0; i < before.size(); ++i) {
      const bool hidden = row.tokens[i] == kHiddenId;
      EXPECT_EQ(row.labels[i], hidden ? before[i] : kIgnore);
      EXPECT_EQ(row.tokens[i], hidden ? kHiddenId : before[i]);
      EXPECT_EQ(row.weights[i] != 0, hidden);
    }
  }
}

// Each row's share of hidden tokens is within five standard deviations of 1 / weight, and those rates are uniform.
TEST(Diffusion, ARowHidesItsTokensAtItsOwnRateWhichIsUniform) {
  Diffusion diffusion = plain();
  diffusion.eps = 0.2;
  std::vector<double> rates;
  double weighted = 0;
  constexpr int64_t kLength = 300, kSamples = 2000;
  for (uint64_t g = 0; g < kSamples; ++g) {
    const Diffused row = diffused(diffusion, mixed_ids(kLength), g);
    const std::set<float> weights(row.weights.begin(), row.weights.end());
    ASSERT_EQ(weights.size(), row.hidden() == kLength ? 1U : 2U);
    const double p = 1 / static_cast<double>(*weights.rbegin());
    const double share = static_cast<double>(row.hidden()) / kLength;
    EXPECT_NEAR(share, p, 5 * std::sqrt(p * (1 - p) / kLength) + 1e-9);
    rates.push_back(p);
    weighted += share / p;
  }
  std::ranges::sort(rates);
  EXPECT_GE(rates.front(), 0.2F);
  EXPECT_LE(rates.back(), 1);
  for (size_t i = 0; i < rates.size(); ++i)  // Kolmogorov and Smirnov: 1.95 / sqrt(n) at one in a thousand
    EXPECT_NEAR(rates[i], 0.2 + 0.8 * static_cast<double>(i) / kSamples, 0.8 * 1.95 / std::sqrt(kSamples));
  EXPECT_NEAR(weighted / kSamples, 1, 0.01);
}

TEST(Diffusion, DocumentsHaveRatesOfTheirOwnIfAttentionIsLimitedToThem) {
  Diffusion diffusion = plain();
  const std::vector<int32_t> starts = {0, 100, 130};
  const auto weights_of = [&](uint64_t g) {
    const Diffused row = diffused(diffusion, mixed_ids(200), g, 1, starts);
    std::set<float> weights(row.weights.begin(), row.weights.end());
    weights.erase(0);
    return weights;
  };
  int64_t three = 0;
  for (uint64_t g = 0; g < 50; ++g) EXPECT_LE(weights_of(g).size(), 1U);
  diffusion.per_document = true;
  for (uint64_t g = 0; g < 50; ++g) three += weights_of(g).size() == 3;
  EXPECT_GT(three, 35);  // a document may hide nothing
}

TEST(Diffusion, ShiftedLabelsStandBeforeTheirTokensAndFirstOnesAreNeverHidden) {
  Diffusion diffusion = plain();
  diffusion.shifted = true;
  diffusion.per_document = true;
  diffusion.eps = 1;  // all that may be
  const std::vector<int32_t> before = mixed_ids(10);
  const Diffused row = diffused(diffusion, before, 3, 1, {0, 6});
  for (size_t i = 0; i < 10; ++i) {
    const bool first = i == 0 || i == 6;
    EXPECT_EQ(row.tokens[i], first ? before[i] : kHiddenId) << i;
    EXPECT_EQ(row.counted[i], first ? kIgnore : before[i]) << i;
    const bool last = i == 5 || i == 9;
    EXPECT_EQ(row.labels[i], last ? kIgnore : before[i + 1]) << i;
    EXPECT_EQ(row.weights[i], last ? 0 : 1) << i;
  }
}

TEST(Diffusion, TokensOfWeightZeroAreShownAndOthersKeepTheirWeights) {
  Diffusion diffusion = plain();
  diffusion.eps = 1;
  for (const int64_t draws : {0, 1}) {
    diffusion.draws = draws;
    const Diffused row = diffused(diffusion, {10, 11, 12, 13}, 0, 1, {}, {0, 2, 0, 0.5});
    EXPECT_EQ(row.counted, (std::vector<int32_t>{kIgnore, 11, kIgnore, 13}));
    EXPECT_EQ(row.tokens[0], 10);
    EXPECT_EQ(row.tokens[2], 12);
    const float factor = row.hidden() == 2 ? 1 : 2;  // of a draw: L / l
    EXPECT_EQ(row.weights[1], row.tokens[1] == kHiddenId ? 2 * factor : 0);
    EXPECT_EQ(row.weights[3], row.tokens[3] == kHiddenId ? 0.5F * factor : 0);
  }
}

// With as many draws as tokens, each count of hidden ones comes once.
TEST(Diffusion, TheDrawsOfABoundHideEachNumberOfTokensEquallyOftenAndAnyOfThem) {
  Diffusion diffusion = plain();
  constexpr size_t kLength = 12;
  diffusion.draws = kLength;
  std::vector<int64_t> firsts(kLength + 1), places(kLength);
  constexpr uint64_t kSamples = 400;
  for (uint64_t sample = 0; sample < kSamples; ++sample) {
    std::set<int64_t> counts;
    for (uint64_t draw = 0; draw < kLength; ++draw) {
      const Diffused row = diffused(diffusion, mixed_ids(kLength), sample * kLength + draw);
      counts.insert(row.hidden());
      if (draw == 0) ++firsts[static_cast<size_t>(row.hidden())];
      for (size_t i = 0; i < kLength; ++i) {
        if (row.tokens[i] != kHiddenId) continue;
        EXPECT_EQ(row.weights[i], static_cast<float>(static_cast<double>(kLength) / static_cast<double>(row.hidden())));
        places[i] += row.hidden() == 1;
      }
    }
    EXPECT_EQ(counts.size(), kLength);
    EXPECT_EQ(*counts.begin(), 1);
  }
  const double expected = static_cast<double>(kSamples) / kLength;
  for (size_t i = 0; i < kLength; ++i) {
    EXPECT_NEAR(static_cast<double>(firsts[i + 1]), expected, 5 * std::sqrt(expected)) << i;
    EXPECT_NEAR(static_cast<double>(places[i]), expected, 5 * std::sqrt(expected)) << i;
  }
}

// With other numbers of draws they are spread over 1 to L.
TEST(Diffusion, DrawsAreSpreadEvenly) {
  Diffusion diffusion = plain();
  diffusion.draws = 8;
  for (uint64_t sample = 0; sample < 30; ++sample) {
    std::vector<int64_t> counts;
    for (uint64_t draw = 0; draw < 8; ++draw)
      counts.push_back(diffused(diffusion, mixed_ids(100), 8 * sample + draw).hidden());
    std::ranges::sort(counts);
    for (size_t i = 0; i + 1 < counts.size(); ++i) EXPECT_NEAR(static_cast<double>(counts[i + 1] - counts[i]), 12.5, 1);
  }
}

TEST(Diffusion, AShareOfTheSequencesIsCutToAnyLength) {
  Diffusion diffusion = plain();
  diffusion.random_length_prob = 0.1;
  std::vector<size_t> cut;
  constexpr double kSamples = 20000;
  for (uint64_t g = 0; g < 20000; ++g)
    if (const size_t kept = kept_length(diffusion, 1, g, 200); kept < 200) cut.push_back(kept);
  EXPECT_NEAR(static_cast<double>(cut.size()) / kSamples, 0.1 * 199 / 200, 4 * std::sqrt(0.09 / kSamples));
  EXPECT_NEAR(std::accumulate(cut.begin(), cut.end(), 0.0) / static_cast<double>(cut.size()), 100,
              4 * 58 / std::sqrt(static_cast<double>(cut.size())));
  EXPECT_GE(std::ranges::min(cut), 1U);
  diffusion.draws = 4;
  for (uint64_t g = 0; g < 1000; ++g) EXPECT_EQ(kept_length(diffusion, 1, g, 200), 200U);
}

TEST(Diffusion, WhatIsHiddenDependsOnSeedSampleAndPositionAlone) {
  const Diffusion d = plain();
  EXPECT_EQ(diffused(d, mixed_ids(200), 1).tokens, diffused(d, mixed_ids(200), 1).tokens);
  EXPECT_NE(diffused(d, mixed_ids(200), 1).tokens, diffused(d, mixed_ids(200), 2).tokens);
  EXPECT_NE(diffused(d, mixed_ids(200), 1, 1).tokens, diffused(d, mixed_ids(200), 1, 2).tokens);
  const Diffused longer = diffused(d, mixed_ids(300), 4), shorter = diffused(d, mixed_ids(200), 4);
  EXPECT_TRUE(std::equal(shorter.labels.begin(), shorter.labels.end(), longer.labels.begin()));
}

struct DiffusionLoader : HidingLoader {
  static LoaderOptions options(int64_t ranks = 1, int64_t rank = 0) {
    return options_with({.diffusion = Diffusion{.random_length_prob = 0.3, .mask_id = kHiddenId}}, ranks, rank);
  }
};

void expect_same(const Batch& a, const Batch& b) {
  EXPECT_EQ(a.tokens, b.tokens);
  EXPECT_EQ(a.labels, b.labels);
  EXPECT_EQ(a.weights, b.weights);
  EXPECT_EQ(a.counted, b.counted);
  EXPECT_EQ(a.row_tokens, b.row_tokens);
  EXPECT_EQ(a.document_starts, b.document_starts);
}

TEST_F(DiffusionLoader, TheSamePositionsAreHiddenWhateverTheRanksThreadsAndStart) {
  Loader one(train(), options());
  std::vector<std::unique_ptr<Loader>> four;
  for (int64_t rank = 0; rank < 4; ++rank) {
    LoaderOptions o = options(4, rank);
    o.prefetch_threads = rank;
    four.push_back(std::make_unique<Loader>(train(), o));
  }
  LoaderOptions later = options();
  later.first_sample = 16;
  Loader resumed(train(), later);
  for (int step = 0; step < 5; ++step) {
    const StepBatch whole = one.next();
    for (size_t rank = 0; rank < 4; ++rank)
      expect_same(four[rank]->next().micro_batches.front(), whole.micro_batches[rank]);
    if (step < 2) continue;
    const StepBatch again = resumed.next();
    for (size_t i = 0; i < 4; ++i) expect_same(again.micro_batches[i], whole.micro_batches[i]);
  }
}

TEST_F(DiffusionLoader, ACutRowEndsInPadding) {
  Loader loader(train(), options());
  int64_t cut = 0;
  for (int step = 0; step < 10; ++step) {
    for (const Batch& batch : loader.next().micro_batches) {
      for (int64_t row = 0; row < batch.B; ++row) {
        const int32_t kept = batch.row_tokens[static_cast<size_t>(row)];
        cut += kept < batch.S;
        for (int64_t p = 0; p < batch.S; ++p) {
          const auto i = static_cast<size_t>(row * batch.S + p);
          const bool counts = p < kept;
          EXPECT_EQ(batch.counted[i] != kIgnore, counts);
          EXPECT_EQ(batch.counted_weights[i], counts ? 1 : 0);
          if (!counts) {
            EXPECT_EQ(batch.tokens[i], 0);
            EXPECT_EQ(batch.labels[i], kIgnore);
          }
        }
      }
      for (const int32_t start : batch.document_starts)
        EXPECT_LT(start % batch.S, batch.row_tokens[static_cast<size_t>(start / batch.S)]);
    }
  }
  EXPECT_GT(cut, 10);
}

// In whatever batches: every window comes `draws` times, and its tokens are those of the text.
TEST_F(DiffusionLoader, EveryWindowOfABoundHasAllItsDraws) {
  LoaderOptions o = options();
  o.shuffle = false;
  o.labels = o.labels.held_out(3);
  o.local_batch_size = o.global_batch_size = 5;
  o.max_windows = 7;
  std::vector<int32_t> whole(static_cast<size_t>(7 * o.seq_len)), seen;
  train().read(0, whole);
  Loader loader(train(), o);
  std::set<std::vector<int32_t>> different;
  int64_t rows = 0;
  while (loader.steps_left() > 0) {
    for (const Batch& batch : loader.next().micro_batches) {
      for (int64_t row = 0; row < batch.B; ++row) {
        if (batch.row_tokens[static_cast<size_t>(row)] == 0) continue;
        const auto begin = batch.counted.begin() + row * batch.S, end = begin + batch.S;
        different.emplace(batch.tokens.begin() + row * batch.S, batch.tokens.begin() + (row + 1) * batch.S);
        if (rows++ % 3 == 0) seen.insert(seen.end(), begin, end);
      }
    }
  }
  EXPECT_EQ(rows, 21);
  EXPECT_GE(different.size(), 20U);
  EXPECT_EQ(seen, whole);
}

TEST(DiffusionRule, IsMadeFromTheKeys) {
  config::Objective o;
  o.kind = config::ObjectiveKind::kMaskedDiffusion;
  const auto bytes = tokenizer::open_tokenizer("bytes");
  const auto rule = [&](config::AttentionScope scope) { return *label_rule(o, scope, *bytes, kModelRows).diffusion; };
  EXPECT_EQ(error_of([&] { rule(config::AttentionScope::kWindow); }).why(),
            "objective.kind = \"masked_diffusion\" shows it in place of hidden tokens");
  o.mask_id = kHiddenId;
  o.diffusion_eps = 0.01;
  o.random_length_prob = 0.5;
  const Diffusion window = rule(config::AttentionScope::kWindow);
  EXPECT_EQ(window.mask_id, kHiddenId);
  EXPECT_EQ(window.eps, 0.01);
  EXPECT_EQ(window.random_length_prob, 0.5);
  EXPECT_FALSE(window.per_document || window.shifted || window.draws > 0);
  o.shift_logits = true;
  EXPECT_TRUE(rule(config::AttentionScope::kDocument).per_document);
  EXPECT_TRUE(rule(config::AttentionScope::kDocument).shifted);
}

}  // namespace
}  // namespace hearth::data
