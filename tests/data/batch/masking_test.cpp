// SPDX-License-Identifier: Apache-2.0
#include "data/batch/masking.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "base/error.h"
#include "data/batch/hiding_loader.h"
#include "data/batch/label_rule.h"

namespace hearth::data {
namespace {

constexpr int64_t kRows = 259;  // bytes, BOS, EOS, and a row for the mask
constexpr int32_t kMask = 258;

config::Objective masked() {
  config::Objective o;
  o.kind = config::ObjectiveKind::kMaskedLm;
  o.mask_id = kMask;
  return o;
}

Masking masking(const config::Objective& objective) {
  return masking_of(objective, *tokenizer::open_tokenizer("bytes"), kRows);
}

struct Masked {
  std::vector<int32_t> tokens, labels;
  int64_t hidden() const {
    return std::count_if(labels.begin(), labels.end(), [](int32_t label) { return label != kIgnore; });
  }
};

Masked hide(const Masking& masking, std::vector<int32_t> tokens, uint64_t g = 0, uint64_t seed = 1) {
  Masked m{std::move(tokens), {}};
  m.labels.resize(m.tokens.size());
  mask_row(masking, seed, g, m.tokens, m.labels);
  return m;
}

std::vector<int32_t> text(size_t size) {
  std::vector<int32_t> tokens(size);
  for (size_t i = 0; i < size; ++i) tokens[i] = static_cast<int32_t>('a' + i * i % 26);
  return tokens;
}

TEST(Masking, HiddenPositionsShowTheMaskAndAreLabelledWithTheirOwnToken) {
  const std::vector<int32_t> before = text(500);
  const Masked m = hide(masking(masked()), before);
  for (size_t p = 0; p < before.size(); ++p) {
    EXPECT_EQ(m.tokens[p], m.labels[p] == kIgnore ? before[p] : kMask) << p;
    EXPECT_TRUE(m.labels[p] == kIgnore || m.labels[p] == before[p]) << p;
  }
}

// Within four standard deviations of independent draws.
void expect_share(double share, int64_t count, int64_t of) {
  const double n = static_cast<double>(of);
  EXPECT_NEAR(static_cast<double>(count) / n, share, 4 * std::sqrt(share * (1 - share) / n));
}

TEST(Masking, TheShareOfHiddenPositionsIsTheProbability) {
  for (const double probability : {0.05, 0.3, 1.0}) {
    config::Objective o = masked();
    o.mlm_probability = probability;
    expect_share(probability, hide(masking(o), text(200000)).hidden(), 200000);
  }
}

TEST(Masking, BertsEightyTenTenShowsMasksRandomTokensAndTheTruth) {
  config::Objective o = masked();
  o.mask_replace_prob = 0.8;
  o.random_replace_prob = 0.1;
  const std::vector<int32_t> before(300000, 'x');
  const Masked m = hide(masking(o), before);
  int64_t masks = 0, random = 0;
  std::vector<int64_t> seen(kRows);
  for (size_t p = 0; p < before.size(); ++p) {
    if (m.labels[p] == kIgnore) continue;
    EXPECT_EQ(m.labels[p], 'x');
    masks += m.tokens[p] == kMask;
    random += m.tokens[p] != kMask && m.tokens[p] != 'x';
    ++seen[static_cast<size_t>(m.tokens[p])];
  }
  expect_share(0.8, masks, m.hidden());
  expect_share(0.1 * 257 / 258, random, m.hidden());  // one in 258 draws is the token itself
  for (int32_t id = 0; id < 258; ++id)
    EXPECT_GT(seen[static_cast<size_t>(id)], 0) << id;  // any token of the vocabulary
}

TEST(Masking, WhatIsHiddenDependsOnSeedSampleAndPositionAlone) {
  const Masking m = masking(masked());
  EXPECT_EQ(hide(m, text(200)).labels, hide(m, text(200)).labels);
  EXPECT_NE(hide(m, text(200), 0).labels, hide(m, text(200), 1).labels);
  EXPECT_NE(hide(m, text(200), 0, 1).labels, hide(m, text(200), 0, 2).labels);
  const Masked longer = hide(m, text(300)), shorter = hide(m, text(200));
  EXPECT_TRUE(std::equal(shorter.labels.begin(), shorter.labels.end(), longer.labels.begin()));
}

TEST(Masking, SpecialTokensAreHiddenOnRequestOnly) {
  std::vector<int32_t> tokens = text(1000);
  for (size_t i = 0; i < tokens.size(); i += 2) tokens[i] = i % 4 == 0 ? 256 : 257;
  config::Objective o = masked();
  const Masked without = hide(masking(o), tokens);
  for (size_t i = 0; i < tokens.size(); i += 2) EXPECT_EQ(without.labels[i], kIgnore) << i;
  EXPECT_GT(without.hidden(), 0);
  o.mask_special_tokens = true;
  const Masked with = hide(masking(o), tokens);
  expect_share(0.3, with.hidden(), 1000);
}

TEST(Masking, ARowHidesAtLeastOnePositionUnlessThatIsNotAsked) {
  config::Objective o = masked();
  o.mlm_probability = 1e-6;
  for (uint64_t g = 0; g < 50; ++g) EXPECT_EQ(hide(masking(o), text(10), g).hidden(), 1) << g;
  // No position may be hidden.
  EXPECT_EQ(hide(masking(o), std::vector<int32_t>(10, 256)).hidden(), 0);
  o.at_least_one_mask = false;
  EXPECT_EQ(hide(masking(o), text(10)).hidden(), 0);
}

std::vector<int32_t> bytes_of(std::string_view text) {
  std::vector<int32_t> tokens;
  for (const char c : text) tokens.push_back(static_cast<unsigned char>(c));
  return tokens;
}

TEST(Masking, WholeWordsAreHiddenTogetherAndAsOftenAsTokens) {
  config::Objective o = masked();
  o.whole_words = true;
  const std::string_view line = "the cat's 42 caf\xC3\xA9s, \xE4\xB8\xAD\xE6\xB2\xA1 ";
  // Spaces, quotes and commas are alone; so are the two Chinese characters, of three bytes each.
  const std::vector<std::string_view> words = {
      "the", " ", "cat", "'", "s", " ", "42", " ", "caf\xC3\xA9s", ",", " ", "\xE4\xB8\xAD", "\xE6\xB2\xA1", " "};
  std::string text;
  for (int i = 0; i < 4000; ++i) text += line;
  const Masked m = hide(masking(o), bytes_of(text));
  int64_t hidden_words = 0, all_words = 0;
  for (size_t at = 0; at < text.size();) {
    for (const std::string_view word : words) {
      const bool is_hidden = m.labels[at] != kIgnore;
      for (size_t i = 0; i < word.size(); ++i, ++at) ASSERT_EQ(m.labels[at] != kIgnore, is_hidden) << at;
      hidden_words += is_hidden ? 1 : 0;
      ++all_words;
    }
  }
  expect_share(0.3, hidden_words, all_words);
  // The same first numbers decide where every token is a word of its own.
  config::Objective each = masked();
  const std::vector<int32_t> alone = bytes_of(std::string(500, ' '));
  EXPECT_EQ(hide(masking(o), alone).labels, hide(masking(each), alone).labels);
  // The one word that is hidden at least is hidden whole.
  o.mlm_probability = 1e-6;
  for (uint64_t g = 0; g < 50; ++g) EXPECT_EQ(hide(masking(o), bytes_of("abc def ghi"), g).hidden() % 2, 1) << g;
  // A text without spaces is no single word: its share is hidden, too.
  o.mlm_probability = 0.3;
  expect_share(0.3, hide(masking(o), bytes_of(std::string(64000, 'A'))).hidden() / 32, 2000);
  // Vietnamese has letters from U+1E00 on.
  o.mlm_probability = 1e-6;
  for (uint64_t g = 0; g < 50; ++g) EXPECT_EQ(hide(masking(o), bytes_of("ti\xE1\xBA\xBFng"), g).hidden(), 7) << g;
  // A special token ends a word.
  std::vector<int32_t> cut = bytes_of("abcdef");
  cut[3] = 257;
  const Masking of_words = masking(o);
  for (uint64_t g = 0; g < 50; ++g) EXPECT_LE(hide(of_words, cut, g).hidden(), 3) << g;
  EXPECT_EQ(error_of([&] { masking_of(o, *tokenizer::open_tokenizer("ids:256"), kRows); }).key(),
            "objective.whole_words");
}

TEST(Masking, TheProbabilityGoesOnALineFromTheFirstSampleToTheLast) {
  config::Objective o = masked();
  o.mlm_probability = 0.3, o.mlm_probability_end = 0.1;
  Masking m = masking(o);
  const auto share = [&](double expected, uint64_t g) {
    expect_share(expected, hide(m, text(100000), g).hidden(), 100000);
  };
  share(0.1, 0);  // held-out text
  m.samples = 1000;
  share(0.3, 0);
  share(0.25, 250);
  share(0.1, 1000);
  share(0.1, 5000);  // a resumed run may be longer than it was
  // What a smaller share hides is hidden by a larger one, too.
  const Masked begin = hide(m, text(1000), 7);
  m.samples = 8;
  const Masked end = hide(m, text(1000), 7);
  for (size_t p = 0; p < 1000; ++p) EXPECT_TRUE(end.labels[p] == kIgnore || begin.labels[p] != kIgnore) << p;
}

TEST(Masking, AMaskThatIsNoTokenIsAnError) {
  const auto tokenizer = tokenizer::open_tokenizer("bytes");
  const auto problem = [&](config::Objective o) { return error_of([&] { masking_of(o, *tokenizer, 258); }).message(); };
  config::Objective o = masked();
  EXPECT_EQ(problem(o), "objective.mask_id = 258 is outside the vocabulary of 258");
  o.mask_id = -1;
  EXPECT_EQ(problem(o), "the tokenizer has no mask token, and the run file names no token");
  EXPECT_EQ(error_of([&] { masking_of(o, *tokenizer, 258); }).fix(),
            "name an unused special token (objective.mask_token), or add a row for it: objective.mask_id = 258, "
            "model.vocab_size = 259");
  o.mask_token = "<mask>";
  EXPECT_EQ(problem(o), "objective.mask_token = \"<mask>\" is not a special token of the tokenizer");
}

using enum config::AttentionScope;

TEST(LabelRule, SpikesNeedRecordingsAndMayLeaveOutTheirBos) {
  config::Objective o;
  o.kind = config::ObjectiveKind::kSpikeLm;
  EXPECT_EQ(error_of([&] { label_rule(o, kWindow, *tokenizer::open_tokenizer("bytes"), 258); }).message(),
            "objective.kind = \"spike_lm\" needs recordings");
  const auto spikes = tokenizer::open_tokenizer("spikes");
  std::vector<int32_t> tokens = {255, 1, 0, 255, 2, 0}, labels = {1, 0, 255, 2, 0, 255};
  label_rule(o, kWindow, *spikes, 256).apply(1, 0, tokens, labels);
  EXPECT_EQ(labels, (std::vector<int32_t>{1, 0, 255, 2, 0, 255}));
  o.count_bos = false;
  label_rule(o, kWindow, *spikes, 256).apply(1, 0, tokens, labels);
  EXPECT_EQ(labels, (std::vector<int32_t>{1, 0, kIgnore, 2, 0, kIgnore}));
}

struct MaskedLoader : HidingLoader {
  static LoaderOptions options(int64_t ranks = 1, int64_t rank = 0) {
    return options_with({.masking = masking(masked())}, ranks, rank);
  }
};

// A hidden position's token is in the label, any other's in the row: together they are the text.
std::vector<int32_t> truth(const Batch& batch, int64_t row) {
  std::vector<int32_t> tokens;
  for (int64_t p = 0; p < batch.row_tokens[static_cast<size_t>(row)]; ++p) {
    const auto i = static_cast<size_t>(row * batch.S + p);
    tokens.push_back(batch.labels[i] == kIgnore ? batch.tokens[i] : batch.labels[i]);
  }
  return tokens;
}

TEST_F(MaskedLoader, RowsInOrderAreTheWholeTextOnceWithoutOverlap) {
  LoaderOptions o = options();
  o.shuffle = false;
  Loader loader(dataset->split("train"), o);
  std::vector<int32_t> seen;
  bool padded = false;
  while (loader.steps_left() > 0) {
    for (const Batch& batch : loader.next().micro_batches) {
      for (int64_t row = 0; row < batch.B; ++row) {
        for (const int32_t token : truth(batch, row)) seen.push_back(token);
        const int32_t tokens = batch.row_tokens[static_cast<size_t>(row)];
        if (tokens == 0 || tokens == batch.S) continue;
        padded = true;
      }
    }
  }
  EXPECT_TRUE(padded);
  std::vector<int32_t> whole(static_cast<size_t>(dataset->split("train").tokens()));
  dataset->split("train").read(0, whole);
  EXPECT_EQ(seen, whole);
}

TEST_F(MaskedLoader, TheSamePositionsAreHiddenWhateverTheRanks) {
  Loader one(dataset->split("train"), options());
  std::vector<std::unique_ptr<Loader>> four;
  for (int64_t rank = 0; rank < 4; ++rank)
    four.push_back(std::make_unique<Loader>(dataset->split("train"), options(4, rank)));
  for (int step = 0; step < 5; ++step) {
    const StepBatch whole = one.next();
    for (size_t rank = 0; rank < 4; ++rank) {
      const StepBatch part = four[rank]->next();
      EXPECT_EQ(part.micro_batches.front().tokens, whole.micro_batches[rank].tokens);
      EXPECT_EQ(part.micro_batches.front().labels, whole.micro_batches[rank].labels);
    }
  }
}

TEST_F(MaskedLoader, AWindowThatComesAgainHidesOtherPositions) {
  LoaderOptions o = options();
  Loader loader(dataset->split("train"), o);
  const Sampler sampler = sampler_of(dataset->split("train"), o);
  const auto windows = static_cast<uint64_t>(sampler.windows(0));
  std::map<int64_t, std::vector<int32_t>> first_labels;
  int64_t again = 0;
  for (uint64_t g = 0; g < 2 * windows;) {
    for (const Batch& batch : loader.next().micro_batches) {
      for (int64_t row = 0; row < batch.B; ++row, ++g) {
        const std::vector<int32_t> labels(batch.labels.begin() + row * batch.S,
                                          batch.labels.begin() + (row + 1) * batch.S);
        const auto [it, is_new] = first_labels.emplace(sampler.sample(g).window, labels);
        again += !is_new && it->second != labels;
      }
    }
  }
  EXPECT_GT(again, static_cast<int64_t>(windows) * 9 / 10);
}

}  // namespace
}  // namespace hearth::data
