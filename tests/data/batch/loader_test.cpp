// SPDX-License-Identifier: Apache-2.0
#include "data/batch/loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/error.h"
#include "data/corpus_folder.h"

namespace hearth::data {
namespace {

using testing::HasSubstr;

using test::ScratchFolder;

class LoaderTest : public testing::Test {
 protected:
  void SetUp() override {
    write_corpus(scratch_ / "text", 40);
    BuildRules rules;
    rules.validation = 0.3;
    rules.shard_tokens = 2000;
    build(scratch_ / "out", {scratch_ / "text"}, rules);
    dataset_ = std::make_unique<Dataset>(Dataset::open(scratch_ / "out"));
  }
  const Split& train() const { return dataset_->split("train"); }
  const Split& validation() const { return dataset_->split("validation"); }

  static LoaderOptions options(int64_t global = 12, int64_t local = 2) {
    LoaderOptions o;
    o.seed = 9;
    o.seq_len = 16;
    o.global_batch_size = global;
    o.local_batch_size = local;
    return o;
  }

  ScratchFolder scratch_;
  std::unique_ptr<Dataset> dataset_;
};

// A row in comparable form.
struct Row {
  std::vector<int32_t> tokens, labels, starts;
  bool operator==(const Row&) const = default;
};

void collect_rows(const StepBatch& step, std::map<uint64_t, Row>& rows) {
  for (const Batch& batch : step.micro_batches) {
    for (int64_t i = 0; i < batch.B; ++i) {
      Row row;
      const auto begin = static_cast<std::ptrdiff_t>(i * batch.S), end = begin + static_cast<std::ptrdiff_t>(batch.S);
      row.tokens.assign(batch.tokens.begin() + begin, batch.tokens.begin() + end);
      row.labels.assign(batch.labels.begin() + begin, batch.labels.begin() + end);
      for (const int32_t start : batch.document_starts) {
        if (start >= begin && start < end) row.starts.push_back(start - static_cast<int32_t>(begin));
      }
      EXPECT_TRUE(rows.emplace(batch.first_sample + static_cast<uint64_t>(i), std::move(row)).second);
    }
  }
}

std::map<uint64_t, Row> rows_of(const Split& split, const LoaderOptions& options, int64_t steps) {
  Loader loader(split, options);
  std::map<uint64_t, Row> rows;
  for (int64_t i = 0; i < steps; ++i) collect_rows(loader.next(), rows);
  return rows;
}

TEST_F(LoaderTest, ARowIsItsSamplesWindowWithTheNextTokensAsLabels) {
  const LoaderOptions o = options();
  const auto rows = rows_of(train(), o, 30);
  const Sampler sampler = sampler_of(train(), o);
  const auto tokens = all_tokens(train());
  ASSERT_EQ(rows.size(), 360u);
  bool short_row = false;
  for (const auto& [g, row] : rows) {
    const Sample sample = sampler.sample(g);
    Row expected{std::vector<int32_t>(16, 0), std::vector<int32_t>(16, kIgnore), {0}};
    for (int64_t i = 0; i + 1 < sample.num_tokens; ++i) {
      const auto t = static_cast<size_t>(sample.first_token + i);
      expected.tokens[static_cast<size_t>(i)] = tokens[t];
      expected.labels[static_cast<size_t>(i)] = tokens[t + 1];
      if (i > 0 && tokens[t - 1] == 257) expected.starts.push_back(static_cast<int32_t>(i));
    }
    short_row = short_row || sample.num_tokens < 17;
    ASSERT_EQ(row, expected) << g;
  }
  EXPECT_TRUE(short_row);  // the text's last window was among them
}

// The name that keys the order, which Python reads as the document says: the dataset's identity and the split.
TEST_F(LoaderTest, TheOrderIsThatOfTheDatasetAndTheSplit) {
  for (const Split* split : {&train(), &validation()}) {
    const LoaderOptions o = options();
    std::string command =
        fmt::format("python3 {} windows {} {}/{} {} {}", test::source_path("tests/data/order/order_reference.py"),
                    o.seed, dataset_->manifest().identity, split->name(), split->tokens(), o.seq_len);
    std::string expected;
    for (uint64_t g = 0; g < 20; ++g) {
      command += fmt::format(" {}", g);
      const Sample s = sampler_of(*split, o).sample(g);
      expected += fmt::format("{} {} {} {}\n", s.epoch, s.window, s.first_token, s.num_tokens);
    }
    EXPECT_EQ(test::run_command(command).output, expected) << split->name();
  }
}

TEST_F(LoaderTest, RanksTogetherReadWhatOneRankReads) {
  const auto expected = rows_of(train(), options(), 5);
  for (const auto& [ranks, local] : {std::pair<int64_t, int64_t>{2, 1}, {2, 3}, {3, 2}, {6, 1}, {6, 2}}) {
    std::map<uint64_t, Row> rows;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      LoaderOptions o = options(12, local);
      o.rank = rank;
      o.ranks = ranks;
      Loader loader(train(), o);
      for (int i = 0; i < 5; ++i) {
        const StepBatch step = loader.next();
        for (int64_t m = 0; m < std::ssize(step.micro_batches); ++m) {
          const Batch& batch = step.micro_batches[static_cast<size_t>(m)];
          EXPECT_EQ(batch.first_sample, step.first_sample + static_cast<uint64_t>((m * ranks + rank) * local));
        }
        collect_rows(step, rows);
      }
    }
    EXPECT_EQ(rows, expected) << ranks;
  }
}

TEST_F(LoaderTest, ThreadsAndPrefetchedStepsDoNotShow) {
  const auto expected = rows_of(train(), options(), 40);
  for (const int64_t threads : {0, 1, 3}) {
    for (const int64_t steps : {1, 2, 7}) {
      LoaderOptions o = options();
      o.prefetch_threads = threads;
      o.prefetch_steps = steps;
      EXPECT_EQ(rows_of(train(), o, 40), expected) << threads << " " << steps;
    }
  }
}

TEST_F(LoaderTest, SeedAndNextSampleAreTheWholeState) {
  const auto expected = rows_of(train(), options(), 20);
  Loader first(train(), options());
  std::map<uint64_t, Row> rows;
  for (int i = 0; i < 7; ++i) collect_rows(first.next(), rows);
  EXPECT_EQ(first.next_sample(), 84u);  // the prefetched samples do not count
  LoaderOptions o = options(24, 3);     // resumed with another batch size
  o.first_sample = first.next_sample();
  o.prefetch_threads = 2;
  Loader second(train(), o);
  for (int i = 0; i < 7; ++i) collect_rows(second.next(), rows);
  for (const auto& [g, row] : expected) EXPECT_EQ(rows.at(g), row) << g;
}

TEST_F(LoaderTest, ValidationCountsEveryHeldOutTokenExactlyOnce) {
  for (const int64_t ranks : {1, 2, 4}) {
    std::map<uint64_t, Row> rows;
    uint64_t samples = 0;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      LoaderOptions o = options(16, 2);
      o.shuffle = false;
      o.rank = rank;
      o.ranks = ranks;
      Loader loader(validation(), o);
      EXPECT_EQ(loader.steps_left(), (static_cast<int64_t>(loader.samples_per_epoch()) + 15) / 16);
      samples = 0;
      while (loader.steps_left() > 0) {
        const StepBatch step = loader.next();
        samples += step.num_samples;
        collect_rows(step, rows);
      }
      EXPECT_EQ(samples, loader.samples_per_epoch());
    }
    std::vector<int32_t> labels;
    for (const auto& [g, row] : rows)
      std::copy_if(row.labels.begin(), row.labels.end(), std::back_inserter(labels),
                   [](int32_t l) { return l != kIgnore; });
    auto expected = all_tokens(validation());
    expected.erase(expected.begin());
    EXPECT_EQ(labels, expected) << ranks;
    EXPECT_EQ(rows.size() % 16, 0u);
    EXPECT_GT(rows.size(), samples);  // the last step was filled up
  }
}

TEST_F(LoaderTest, WaitingIsMeasured) {
  LoaderOptions o = options();
  o.prefetch_threads = 0;
  Loader loader(train(), o);
  EXPECT_EQ(loader.waited_s(), 0);
  loader.next();
  const double once = loader.waited_s();
  EXPECT_GT(once, 0);
  loader.next();
  EXPECT_GT(loader.waited_s(), once);
}

TEST_F(LoaderTest, ADamagedBlockIsThrownByNextInItsTurn) {
  // A seed whose first `good` samples, one a step, do not touch the second shard.
  LoaderOptions o = options(1, 1);
  const auto& shards = dataset_->manifest().find_split("train")->shards;
  const int64_t begin = shards[0].tokens, end = begin + shards[1].tokens;
  int64_t good = 0;
  while (good < 6) {
    ++o.seed;
    const Sampler sampler = sampler_of(train(), o);
    const auto touches = [&](int64_t g) {
      const Sample sample = sampler.sample(static_cast<uint64_t>(g));
      return sample.first_token < end && sample.first_token + sample.num_tokens > begin;
    };
    for (good = 0; !touches(good);) ++good;
  }
  const auto expected = rows_of(train(), o, good);

  const Path shard = scratch_ / "out" / "train-000000-0001.shard";
  std::string bytes = read_file(shard);
  bytes[130] = static_cast<char>(bytes[130] ^ 1);
  write_text(shard, bytes);
  const Dataset damaged = Dataset::open(scratch_ / "out");
  for (const int64_t threads : {0, 3}) {
    o.prefetch_threads = threads;
    Loader loader(damaged.split("train"), o);
    std::map<uint64_t, Row> rows;
    for (int64_t step = 0; step < good; ++step) collect_rows(loader.next(), rows);
    EXPECT_EQ(rows, expected);
    for (int again = 0; again < 2; ++again) {
      const Error error = error_of([&] { loader.next(); });
      EXPECT_EQ(error.code(), ExitCode::kDamaged);
      EXPECT_THAT(error.why(), HasSubstr("block 0")) << error.why();
      EXPECT_EQ(loader.next_sample(), static_cast<uint64_t>(good));
    }
  }
}

// Replacements are restated from the tokens' places: 1, 2, 4, ... windows further, the first next to the damaged shard.
TEST_F(LoaderTest, ADamagedSampleIsReplacedByTheSameOtherOneOnEveryRankAndTold) {
  LoaderOptions o = options();
  const auto whole = rows_of(train(), o, 20);
  const Sampler sampler = sampler_of(train(), o);
  std::map<int64_t, Row> row_of_window;
  for (const auto& [g, row] : whole) row_of_window[sampler.sample(g).window] = row;
  const auto& shards = dataset_->manifest().find_split("train")->shards;
  const int64_t begin = shards[0].tokens, end = begin + shards[1].tokens;
  const auto is_damaged = [&](int64_t window) { return window * 16 < end && window * 16 + 17 > begin; };

  const Path shard = scratch_ / "out" / shards[1].file;
  std::string bytes = read_file(shard);
  bytes[130] = static_cast<char>(bytes[130] ^ 1);
  write_text(shard, bytes);
  const Dataset damaged = Dataset::open(scratch_ / "out");
  o.substitute_damage = true;
  size_t expected_lines = 0, compared = 0;
  for (const int64_t ranks : {1, 3}) {
    std::map<uint64_t, Row> rows;
    std::vector<std::string> lines;
    for (int64_t rank = 0; rank < ranks; ++rank) {
      o.rank = rank;
      o.ranks = ranks;
      o.prefetch_threads = ranks - 1;
      Loader loader(damaged.split("train"), o);
      for (int step = 0; step < 20; ++step) {
        const StepBatch batch = loader.next();
        lines.insert(lines.end(), batch.substitutes.begin(), batch.substitutes.end());
        collect_rows(batch, rows);
      }
    }
    expected_lines = 0;
    for (const auto& [g, row] : rows) {
      int64_t window = sampler.sample(g).window;
      if (is_damaged(window)) {
        int64_t distance = 1;
        while (is_damaged((window + distance) % sampler.windows(0))) distance *= 2;
        const std::string line =
            fmt::format("sample {}: window {} replaces {}: ", g, (window + distance) % sampler.windows(0), window);
        const auto tells = [&line](const std::string& told) { return told.starts_with(line); };
        EXPECT_EQ(std::count_if(lines.begin(), lines.end(), tells), 1) << line;
        window = (window + distance) % sampler.windows(0);
        ++expected_lines;
      }
      if (!row_of_window.contains(window)) continue;
      ASSERT_EQ(row, row_of_window.at(window)) << g;
      ++compared;
    }
    EXPECT_EQ(lines.size(), expected_lines);
  }
  EXPECT_GT(expected_lines, 5u);
  EXPECT_GT(compared, 300u);
}

TEST_F(LoaderTest, WhereNothingIsWholeDamageStopsEvenWithSubstitutes) {
  for (const auto& shard : dataset_->manifest().find_split("train")->shards) {
    std::string bytes = read_file(scratch_ / "out" / shard.file);
    bytes[130] = static_cast<char>(bytes[130] ^ 1);
    write_text(scratch_ / "out" / shard.file, bytes);
  }
  const Dataset damaged = Dataset::open(scratch_ / "out");
  LoaderOptions o = options();
  o.substitute_damage = true;
  Loader loader(damaged.split("train"), o);
  EXPECT_EQ(error_of([&] { loader.next(); }).code(), ExitCode::kDamaged);
}

TEST_F(LoaderTest, OptionsThatCannotBeAreUserErrors) {
  const auto message = [&](auto change) {
    LoaderOptions o = options();
    change(o);
    const Error error = error_of([&] { Loader loader(train(), o); });
    EXPECT_EQ(error.code(), ExitCode::kUser);
    return error.message();
  };
  EXPECT_EQ(message([](LoaderOptions& o) { o.local_batch_size = 5; }), "training.global_batch_size 12 does not divide");
  EXPECT_EQ(message([](LoaderOptions& o) { o.ranks = 5; }), "training.global_batch_size 12 does not divide");
  EXPECT_EQ(message([](LoaderOptions& o) { o.seq_len = 0; }),
            "training.seq_len 0, local_batch_size 2, global_batch_size 12");
  EXPECT_TRUE(message([](LoaderOptions& o) { o.seq_len = 1'000'000; }).starts_with("the data is too short: "));
}

TEST_F(LoaderTest, ALoaderThatIsNotReadToTheEndStops) {
  LoaderOptions o = options();
  o.prefetch_threads = 4;
  o.prefetch_steps = 2;
  for (int i = 0; i < 20; ++i) {
    Loader loader(train(), o);
    if (i % 2 == 0) loader.next();
  }
}

}  // namespace
}  // namespace hearth::data
