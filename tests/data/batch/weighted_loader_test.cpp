// SPDX-License-Identifier: Apache-2.0
// Weights of labels in batches: with every order, packing and objective.
#include <algorithm>
#include <set>

#include "base/random.h"
#include "data/batch/loader.h"
#include "data/formats/saved_folder.h"
#include "data/label_weights_support.h"
#include "data/order/best_fit.h"
#include "data/order/neox_order.h"

namespace hearth::data {
namespace {

using test::ScratchFolder;

// Every token of the test's documents is different, so a label identifies its token.
float weight_of(int64_t id) { return id % 3 == 0 ? 0 : static_cast<float>(id % 7) / 4; }
float mask_of(int64_t id) { return id % 3 == 0 ? 0 : 1; }

// A dataset of documents of some 20 tokens, with ids that count from `first` on; and the same dataset without weights.
class Twins {
 public:
  Twins() : Twins(0, weight_of, 1000) {}
  Twins(int64_t first, float (*weigh)(int64_t), int64_t tokens) {
    const RandomKey key = random_key(3, "lengths");
    std::vector<std::vector<int32_t>> documents{{}};
    for (int64_t id = first; id < first + tokens; ++id) {
      documents.back().push_back(static_cast<int32_t>(id));
      if (random_u64(key, static_cast<uint64_t>(id)) % 20 == 0) documents.emplace_back();
    }
    SavedTable table;
    table.columns = {{"ids", SavedType::kInt32List}, {"w", SavedType::kFloatList}};
    table.rows = std::ssize(documents);
    write_saved_folder(scratch_ / "rows", table, 500'000'000, [&](int64_t row, SavedRow& out) {
      const std::vector<int32_t>& ids = documents[static_cast<size_t>(row)];
      std::vector<float> weights;
      for (const int32_t id : ids) weights.push_back(weigh(id));
      out.add_ids(0, ids);
      out.add_weights(1, weights);
    });
    BuildRules rules;
    rules.tokenizer = "ids:5000";
    rules.read.text_keys = {"ids"};
    rules.shard_tokens = 1000;  // several shards
    build(scratch_ / "plain", {scratch_ / "rows"}, rules);
    rules.read.weights_key = "w";
    build(scratch_ / "weighted", {scratch_ / "rows"}, rules);
    plain_ = Dataset::open(scratch_ / "plain");
    weighted_ = Dataset::open(scratch_ / "weighted");
  }
  const Split& plain() const { return plain_.split("train"); }
  const Split& weighted() const { return weighted_.split("train"); }

 private:
  ScratchFolder scratch_;
  Dataset plain_, weighted_;
};

using RowOf = std::vector<int32_t>;

// The rows of `steps` steps, sorted: tokens, then labels. Each label must have the weight that `weigh` gives it.
std::multiset<RowOf> rows_of(const Sources& sources, const LoaderOptions& options, int64_t steps,
                             float (*weigh)(int64_t)) {
  std::multiset<RowOf> rows;
  Loader loader(sources, options);
  for (int64_t step = 0; step < steps; ++step) {
    for (const Batch& batch : loader.next().micro_batches) {
      for (size_t begin = 0; begin < batch.labels.size(); begin += static_cast<size_t>(batch.S)) {
        const auto at = static_cast<std::ptrdiff_t>(begin);
        RowOf row(batch.tokens.begin() + at, batch.tokens.begin() + at + batch.S);
        row.insert(row.end(), batch.labels.begin() + at, batch.labels.begin() + at + batch.S);
        rows.insert(row);
      }
      for (size_t i = 0; i < batch.labels.size(); ++i) {
        const int32_t label = batch.labels[i];
        const float expected = label == kIgnore ? 0 : weigh(label);
        if (batch.weights.empty())
          EXPECT_TRUE(label == kIgnore || expected == 1) << label;
        else
          EXPECT_EQ(batch.weights[i], expected) << label;
        EXPECT_TRUE(label == kIgnore || expected > 0) << label;
      }
    }
  }
  return rows;
}

// The effect of weights on rows without weights.
std::multiset<RowOf> weighed(const std::multiset<RowOf>& rows, float (*weigh)(int64_t)) {
  std::multiset<RowOf> result;
  for (RowOf row : rows) {
    for (size_t i = row.size() / 2; i < row.size(); ++i)
      if (row[i] != kIgnore && weigh(row[i]) == 0) row[i] = kIgnore;
    result.insert(std::move(row));
  }
  return result;
}

LoaderOptions options_for(int64_t seq_len) {
  LoaderOptions options;
  options.seq_len = seq_len;
  options.global_batch_size = options.local_batch_size = 1;
  options.seed = 5;
  options.prefetch_threads = 0;
  return options;
}

float one(int64_t) { return 1; }

TEST(WeightedLoader, EveryWindowHasTheWeightsOfItsLabelsWhateverTheOrderAndThePacking) {
  HEARTH_NEEDS_ARROW();
  const Twins twins;
  for (const int64_t seq_len : {1, 16, 33}) {
    for (const std::string kind : {"shuffled", "in order", "torchtitan", "best fit", "neox"}) {
      SCOPED_TRACE(fmt::format("{} {}", kind, seq_len));
      const auto rows = [&](const Split& split, float (*weigh)(int64_t)) {
        LoaderOptions options = options_for(seq_len);
        options.shuffle = kind != "in order";
        if (kind == "torchtitan") options.order.stride = config::Stride::kTorchtitan;
        if (kind == "best fit")
          options.order.tables = {
              std::make_shared<const WindowTable>(best_fit_table(split, seq_len, 1, 7), split.tokens(), seq_len)};
        if (kind == "neox")
          options.order.tables = {
              std::make_shared<const WindowTable>(neox_window_table(split, seq_len, 40, 5), split.tokens(), seq_len)};
        const int64_t windows = sampler_of(split, options).windows(0);
        return rows_of({&split}, options, windows, weigh);
      };
      const auto plain = rows(twins.plain(), one);
      EXPECT_GT(plain.size(), 25U);
      EXPECT_EQ(rows(twins.weighted(), weight_of), weighed(plain, weight_of));
    }
  }
}

TEST(WeightedLoader, AMaskOnlyLeavesLabelsOutAndAMixtureWeighsEachSourceByItself) {
  HEARTH_NEEDS_ARROW();
  const Twins masked(0, mask_of, 600), weighed_twins(1000, weight_of, 600), third(2000, weight_of, 600);
  LoaderOptions options = options_for(16);
  EXPECT_TRUE(Loader(masked.weighted(), options).next().micro_batches[0].weights.empty());
  rows_of({&masked.weighted()}, options, 30, mask_of);
  options.order.segments = {{0, {1, 1, 1}}};
  rows_of({&masked.weighted(), &weighed_twins.weighted(), &third.plain()}, options, 90, [](int64_t id) {
    return id < 1000 ? mask_of(id) : id < 2000 ? weight_of(id) : 1;
  });
  // Weights by token are factors.
  options.order.segments.clear();
  options.token_weights.resize(5000);
  for (size_t id = 0; id < 5000; ++id) options.token_weights[id] = static_cast<float>(id % 5 + 1);
  rows_of({&weighed_twins.weighted()}, options, 30,
          [](int64_t id) { return weight_of(id) * static_cast<float>(id % 5 + 1); });
}

// The last token of a document had the weight of the next document's first token.
TEST(WeightedLoader, WithMaskingAndBestFitEachHiddenTokenHasItsOwnWeight) {
  HEARTH_NEEDS_ARROW();
  const Twins twins;
  LoaderOptions options = options_for(33);
  options.order.masked = true;
  options.order.tables = {std::make_shared<const WindowTable>(best_fit_table(twins.weighted(), options.seq_len, 1, 7),
                                                              twins.weighted().tokens(), options.seq_len)};
  options.labels.masking = Masking{.probability = 0.6, .mask_id = 4999, .vocab_size = 5000, .at_least_one = false};
  const int64_t windows = sampler_of(twins.weighted(), options).windows(0);
  int64_t hidden = 0;
  Loader loader(twins.weighted(), options);
  for (int64_t step = 0; step < windows; ++step) {
    const Batch batch = loader.next().micro_batches[0];
    for (size_t i = 0; i < batch.labels.size(); ++i) {
      if (batch.labels[i] == kIgnore) continue;
      ++hidden;
      EXPECT_EQ(batch.weights[i], weight_of(batch.labels[i])) << batch.labels[i];
    }
  }
  EXPECT_GT(hidden, 150);
}

TEST(WeightedLoader, WithMaskingWhatDoesNotCountIsNeverHiddenAndAllElseAsWithout) {
  HEARTH_NEEDS_ARROW();
  const Twins twins;
  LoaderOptions options = options_for(24);
  options.shuffle = false;
  options.order.masked = true;
  options.labels.masking = Masking{.probability = 0.4, .mask_id = 4999, .vocab_size = 5000, .at_least_one = false};
  Loader plain(twins.plain(), options), weighted(twins.weighted(), options);
  int64_t hidden = 0;
  while (plain.steps_left() > 0) {
    const Batch a = plain.next().micro_batches[0], b = weighted.next().micro_batches[0];
    for (size_t i = 0; i < a.labels.size(); ++i) {
      const bool counts = a.labels[i] != kIgnore && weight_of(a.labels[i]) > 0;
      hidden += counts ? 1 : 0;
      EXPECT_EQ(b.labels[i], counts ? a.labels[i] : kIgnore);
      EXPECT_EQ(b.tokens[i], counts || a.labels[i] == kIgnore ? a.tokens[i] : a.labels[i]);
      EXPECT_EQ(b.weights[i], counts ? weight_of(a.labels[i]) : 0);
    }
  }
  EXPECT_GT(hidden, 150);
}

}  // namespace
}  // namespace hearth::data
