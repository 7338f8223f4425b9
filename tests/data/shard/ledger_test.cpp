// SPDX-License-Identifier: Apache-2.0
// Exactly once, as a ledger: many ranks, killed at random, restarted with other numbers of ranks and other batches.
//
// A row's window is read from its text, not from the sampler: every 16 bytes of a source spell its letter and the
// window's number.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "data/batch/loader.h"
#include "data/corpus_folder.h"
#include "data/order/training_data.h"

namespace hearth::data {
namespace {

constexpr int64_t kSeqLen = 16;

// A window as its text spells it: 'a', 12.
using Entry = std::pair<char, int64_t>;

Entry read_row(const Batch& batch, int64_t row) {
  std::string text;
  for (int64_t i = 0; i < kSeqLen; ++i) text += static_cast<char>(batch.tokens[static_cast<size_t>(row * batch.S + i)]);
  return {text[0], std::stoll(text.substr(1))};
}

class LedgerTest : public testing::Test {
 protected:
  static constexpr int64_t kWindows[] = {211, 67, 12};

  void SetUp() override {
    for (size_t i = 0; i < 3; ++i) {
      const std::string name(1, static_cast<char>('a' + i));
      std::string text;
      for (int64_t w = 0; w < kWindows[i]; ++w) text += fmt::format("{}{:015}", name, w);
      write_text(scratch_ / ("text-" + name) / "only.txt", text);
      build(scratch_ / name, {scratch_ / ("text-" + name)});
    }
    config_.base_folder = scratch_;
    config_.training.seq_len = kSeqLen;
    config_.data.source = {{"a", 6}, {"b", 3}, {"c", 1}};
    config_.data.segment = {{kSeqLen * 700, {2, 4, 1}}, {kSeqLen * 1100, {0, 1, 3}}};
  }

  // Reads `steps` steps of ranks 0 .. ranks - 1 into the ledger. Returns the first sample after them.
  uint64_t run_ranks(const TrainingData& data, uint64_t first, int64_t ranks, int64_t batch, int64_t steps,
                     int64_t prefetch_threads) {
    uint64_t next = first;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      LoaderOptions o;
      o.seed = 77;
      o.seq_len = kSeqLen;
      o.global_batch_size = batch;
      o.local_batch_size = batch / ranks;
      while (o.local_batch_size % 2 == 0) o.local_batch_size /= 2;
      o.rank = rank;
      o.ranks = ranks;
      o.first_sample = first;
      o.order = data.order();
      o.prefetch_threads = prefetch_threads;
      Loader loader(data.splits(), o);
      for (int64_t step = 0; step < steps; ++step) {
        for (const Batch& part : loader.next().micro_batches) {
          for (int64_t row = 0; row < part.B; ++row) {
            const uint64_t g = part.first_sample + static_cast<uint64_t>(row);
            EXPECT_TRUE(ledger_.emplace(g, read_row(part, row)).second) << "sample " << g << " was read twice";
          }
        }
      }
      next = loader.next_sample();
    }
    return next;
  }

  // Samples that were read after the checkpoint do not count.
  void roll_back(uint64_t next_sample) { ledger_.erase(ledger_.lower_bound(next_sample), ledger_.end()); }

  // No sample is missing, and every pass over a source has each window once.
  void expect_exactly_once() const {
    uint64_t g = 0;
    std::map<char, std::vector<int64_t>> passes;
    for (const auto& [sample, entry] : ledger_) {
      ASSERT_EQ(sample, g++);
      passes[entry.first].push_back(entry.second);
    }
    for (size_t i = 0; i < 3; ++i) {
      const auto& seen = passes[static_cast<char>('a' + i)];
      const auto n = static_cast<size_t>(kWindows[i]);
      ASSERT_GT(seen.size(), 2 * n);
      for (size_t begin = 0; begin < seen.size(); begin += n) {
        std::vector<int> count(n);
        for (size_t k = begin; k < std::min(begin + n, seen.size()); ++k) ++count[static_cast<size_t>(seen[k])];
        const int most = *std::max_element(count.begin(), count.end());
        const int least = *std::min_element(count.begin(), count.end());
        EXPECT_EQ(most, 1) << "source " << i << ", pass " << begin / n;
        if (begin + n <= seen.size()) {
          EXPECT_EQ(least, 1) << "source " << i << ", pass " << begin / n;
        }
      }
    }
  }

  test::ScratchFolder scratch_;
  config::RunConfig config_;
  std::map<uint64_t, Entry> ledger_;
};

TEST_F(LedgerTest, KilledAndResizedAtRandomARunReadsWhatOneRankReadsInTheSameOrder) {
  const TrainingData whole(config_);
  run_ranks(whole, 0, 1, 1, 1500, 0);
  expect_exactly_once();
  const auto expected = std::move(ledger_);

  for (uint64_t attempt = 0; attempt < 2; ++attempt) {
    ledger_.clear();
    const RandomKey key = random_key(attempt, "kills");
    uint64_t draw = 0;
    const auto random = [&](uint64_t below) { return static_cast<int64_t>(random_u64(key, draw++) % below); };
    DataState saved = whole.state(0);
    int kills = 0;
    while (saved.next_sample < expected.size()) {
      TrainingData data(config_);
      data.continue_from(saved);
      const int64_t ranks = std::array{1, 2, 3, 4, 8}[static_cast<size_t>(random(5))];
      const int64_t batch = ranks * (1 + random(6));
      const int64_t steps_saved = random(8), steps_lost = random(4);
      const uint64_t first = saved.next_sample;
      run_ranks(data, first, ranks, batch, steps_saved + steps_lost, random(3));
      saved = data.state(first + static_cast<uint64_t>(steps_saved * batch));
      roll_back(saved.next_sample);
      ++kills;
    }
    EXPECT_GT(kills, 20);
    ledger_.erase(ledger_.lower_bound(expected.size()), ledger_.end());
    EXPECT_EQ(ledger_, expected);
  }
}

// Orders with tables: a row is identified by its whole content.
class TableLedgerTest : public testing::Test {
 protected:
  using Ledger = std::map<uint64_t, std::vector<int32_t>>;

  void SetUp() override {
    for (const char* name : {"a", "b"}) {
      std::string text;
      for (uint64_t d = 0; d < (*name == 'a' ? 90u : 40u); ++d) {
        std::string line = fmt::format("{}{} ", name, d) + words(d, static_cast<int64_t>(d * 7 % 50));
        std::replace(line.begin(), line.end(), '\n', ' ');
        text += line + "\n";
      }
      write_text(scratch_ / (std::string("text-") + name) / "lines.txt", text);
      BuildRules rules;
      rules.read.document_bytes = 1;
      rules.shard_tokens = 700;
      build(scratch_ / name, {scratch_ / (std::string("text-") + name)}, rules);
    }
    config_.base_folder = scratch_;
    config_.training.seq_len = kSeqLen;
    config_.training.seed = 1234;
    config_.training.steps = 500;
    config_.training.local_batch_size = 1;
    config_.data.source = {{"a", 2}, {"b", 1}};
  }

  LoaderOptions loading(const TrainingData& data, uint64_t first) const {
    LoaderOptions o;
    o.seed = 1234;
    o.seq_len = kSeqLen;
    o.global_batch_size = o.local_batch_size = 1;
    o.first_sample = first;
    o.order = data.order();
    return o;
  }

  uint64_t run_ranks(const TrainingData& data, uint64_t first, int64_t ranks, int64_t batch, int64_t steps,
                     Ledger& ledger) const {
    uint64_t next = first;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      LoaderOptions o = loading(data, first);
      o.global_batch_size = batch;
      o.local_batch_size = batch / ranks;
      o.rank = rank;
      o.ranks = ranks;
      o.prefetch_threads = rank % 3;
      Loader loader(data.splits(), o);
      for (int64_t step = 0; step < steps; ++step) {
        const StepBatch read = loader.next();
        const Batch& part = read.micro_batches[0];
        for (int64_t row = 0; row < part.B; ++row) {
          const auto at = static_cast<std::ptrdiff_t>(row * kSeqLen);
          std::vector<int32_t> all(part.tokens.begin() + at, part.tokens.begin() + at + kSeqLen);
          all.insert(all.end(), part.labels.begin() + at, part.labels.begin() + at + kSeqLen);
          for (const int32_t start : part.document_starts)
            if (start >= at && start < at + kSeqLen) all.push_back(start - static_cast<int32_t>(at));
          EXPECT_TRUE(ledger.emplace(part.first_sample + static_cast<uint64_t>(row), std::move(all)).second);
        }
      }
      next = loader.next_sample();
    }
    return next;
  }

  // Killed at random and restarted with other ranks and batches, compared with one rank without interruptions. Each
  // pass over a source has each window once.
  void expect_exactly_once_and_in_order() {
    const TrainingData whole(config_);
    Ledger expected;
    run_ranks(whole, 0, 1, 1, 900, expected);  // longer than the run of the tables
    const Sampler sampler = sampler_of(whole.splits(), loading(whole, 0));
    std::array<std::vector<int64_t>, 2> windows;
    for (uint64_t g = 0; g < 900; ++g) {
      const Sample sample = sampler.sample(g);
      windows[static_cast<size_t>(sample.source)].push_back(sample.window);
    }
    for (int64_t source = 0; source < 2; ++source) {
      const auto n = static_cast<size_t>(sampler.windows(source));
      const auto& seen = windows[static_cast<size_t>(source)];
      ASSERT_GE(seen.size(), n);
      for (size_t begin = 0; begin + n <= seen.size(); begin += n) {
        const auto first = seen.begin() + static_cast<std::ptrdiff_t>(begin);
        EXPECT_EQ(std::set<int64_t>(first, first + static_cast<std::ptrdiff_t>(n)).size(), n);
      }
    }

    const RandomKey key = random_key(2, "kills");
    uint64_t draw = 0;
    const auto random = [&](uint64_t below) { return static_cast<int64_t>(random_u64(key, draw++) % below); };
    Ledger ledger;
    DataState saved = whole.state(0);
    while (saved.next_sample < 900) {
      config_.training.steps = 100 + random(900);  // sometimes longer, sometimes shorter
      TrainingData data(config_);
      data.continue_from(saved);
      const int64_t ranks = std::array{1, 2, 3, 4, 8}[static_cast<size_t>(random(5))];
      const int64_t batch = ranks * (1 + random(5)), steps_saved = random(6);
      const uint64_t first = saved.next_sample;
      run_ranks(data, first, ranks, batch, steps_saved + random(3), ledger);
      saved = data.state(first + static_cast<uint64_t>(steps_saved * batch));
      ledger.erase(ledger.lower_bound(saved.next_sample), ledger.end());
    }
    ledger.erase(ledger.lower_bound(900), ledger.end());
    EXPECT_TRUE(ledger == expected);
  }

  test::ScratchFolder scratch_;
  config::RunConfig config_;
};

TEST_F(TableLedgerTest, OfGptNeoxsOrderAndMixture) {
  config_.data.order = config::DataOrder::kNeox;
  config_.data.stride = config::Stride::kNeox;
  config_.data.weight_rule = config::WeightRule::kNeox;
  expect_exactly_once_and_in_order();
  // Another length needs another table of each source: the first run's, and the others'.
  EXPECT_GT(list_folder(scratch_ / "a" / "tables").size(), 2u);
}

TEST_F(TableLedgerTest, OfBestFitPacking) {
  config_.data.packing = config::Packing::kBestFit;
  expect_exactly_once_and_in_order();
  EXPECT_EQ(list_folder(scratch_ / "a" / "tables").size(), 1u);
}

TEST_F(TableLedgerTest, OfBestFitPackingWithGptNeoxsMixture) {
  config_.data.packing = config::Packing::kBestFit;
  config_.data.weight_rule = config::WeightRule::kNeox;
  expect_exactly_once_and_in_order();
}

TEST_F(LedgerTest, WeightsEditedAtRestartsAndASourceAddedRepeatAndLoseNothing) {
  const RandomKey key = random_key(9, "edits");
  uint64_t draw = 0;
  const auto random = [&](uint64_t below) { return static_cast<int64_t>(random_u64(key, draw++) % below); };
  config_.data.segment.clear();
  config_.data.source = {{"a", 6}, {"b", 3}};
  DataState saved = TrainingData(config_).state(0);
  while (saved.next_sample < 1800) {
    if (saved.next_sample > 600 && config_.data.source.size() == 2)
      config_.data.source.insert(config_.data.source.begin(), {"c", 1});
    if (random(2) == 0) config_.data.source[1].weight = static_cast<double>(1 + random(9));
    TrainingData data(config_);
    data.continue_from(saved);
    const int64_t ranks = 1 + random(4);
    const int64_t batch = ranks * (1 + random(20));
    saved = data.state(run_ranks(data, saved.next_sample, ranks, batch, 1 + random(5), random(2)));
  }
  EXPECT_GT(saved.segments.size(), 10u);
  expect_exactly_once();
}

}  // namespace
}  // namespace hearth::data
