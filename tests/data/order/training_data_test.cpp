// SPDX-License-Identifier: Apache-2.0
#include "data/order/training_data.h"
#include "data/batch/loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "data/corpus_folder.h"

namespace hearth::data {
namespace {

using testing::HasSubstr;
using testing::Not;

// Three datasets with different sizes and different average documents.
class TrainingDataTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    scratch_ = new test::ScratchFolder;
    const int sizes[] = {40, 24, 9};
    for (size_t i = 0; i < 3; ++i) {
      const std::string name(1, static_cast<char>('a' + i));
      for (int d = 0; d < sizes[i]; ++d)
        write_text(*scratch_ / ("text-" + name) / fmt::format("{}.txt", d),
                   words(100 * i + static_cast<uint64_t>(d), 100 + 150 * static_cast<int64_t>(i)));
      BuildRules rules;
      rules.shard_tokens = 2000;
      build(*scratch_ / name, {*scratch_ / ("text-" + name)}, rules);
    }
  }
  static void TearDownTestSuite() { delete scratch_; }

  static config::RunConfig config(std::vector<config::DataSource> sources) {
    config::RunConfig c;
    c.base_folder = *scratch_;
    c.training.seq_len = 16;
    c.training.seed = 5;
    c.data.source = std::move(sources);
    return c;
  }
  static LoaderOptions loading(const TrainingData& data, uint64_t first = 0, int64_t batch = 4, int64_t ranks = 1) {
    LoaderOptions o;
    o.seed = 5;
    o.seq_len = 16;
    o.global_batch_size = batch;
    o.local_batch_size = batch / ranks;
    o.ranks = ranks;
    o.first_sample = first;
    o.order = data.order();
    o.prefetch_threads = 0;
    return o;
  }
  static Sampler sampler(const TrainingData& data) { return sampler_of(data.splits(), loading(data)); }

  static test::ScratchFolder* scratch_;
};
test::ScratchFolder* TrainingDataTest::scratch_ = nullptr;

TEST_F(TrainingDataTest, OneDatasetIsItselfAndSeveralHaveAnIdentityOfTheirOwn) {
  config::RunConfig one = config({});
  one.data.path = "a";
  const TrainingData single(one);
  EXPECT_EQ(single.identity(), single.manifest().identity);
  EXPECT_EQ(single.windows(), Window::causal(16).count(single.splits()[0]->tokens()));
  const TrainingData ab(config({{"a"}, {"b"}})), ba(config({{"b"}, {"a"}}));
  EXPECT_NE(ab.identity(), single.identity());
  EXPECT_NE(ab.identity(), ba.identity());
  EXPECT_NE(ab.identity(), TrainingData(config({{"c"}, {"b"}})).identity());
  EXPECT_EQ(ab.windows(), ba.windows());
}

TEST_F(TrainingDataTest, TheLoaderReadsEachRowFromTheSourceOfItsSample) {
  const TrainingData data(config({{"a", 3}, {"b", 1}, {"c", 0}}));
  Loader loader(data.splits(), loading(data));
  const Sampler order = sampler(data);
  for (uint64_t g = 0; g < 200;) {
    const Batch batch = loader.next().micro_batches[0];
    for (size_t row = 0; row < 4; ++row, ++g) {
      const Sample sample = order.sample(g);
      ASSERT_NE(sample.source, 2);
      std::vector<int32_t> tokens(static_cast<size_t>(sample.num_tokens - 1));
      data.splits()[static_cast<size_t>(sample.source)]->read(sample.first_token, tokens);
      tokens.resize(16, 0);
      ASSERT_EQ(std::vector<int32_t>(batch.tokens.begin() + static_cast<std::ptrdiff_t>(16 * row),
                                     batch.tokens.begin() + static_cast<std::ptrdiff_t>(16 * (row + 1))),
                tokens)
          << g;
    }
  }
}

TEST_F(TrainingDataTest, WeightsOfDocumentsCountDocuments) {
  config::RunConfig c = config({{"a", 1}, {"c", 1}});
  c.data.weight_unit = config::WeightUnit::kDocuments;
  const TrainingData data(c);
  const Sampler order = sampler(data);
  const auto use = data.use(order, 65536);
  // The tokens of each divided by the tokens of its average document: each source then gives equally many documents.
  std::vector<double> documents;
  for (size_t i = 0; i < 2; ++i) {
    const Split& split = *data.splits()[i];
    documents.push_back(use[i].share * static_cast<double>(split.documents()) / static_cast<double>(split.tokens()));
  }
  EXPECT_NEAR(documents[0] / documents[1], 1, 1e-3);
  EXPECT_GT(use[1].share, 2 * use[0].share);  // c's documents are longer
}

TEST_F(TrainingDataTest, SegmentsBeginAtWholeSequences) {
  config::RunConfig c = config({{"a"}, {"b"}});
  c.data.segment = {{160, {1, 3}}, {161, {0, 1}}};
  const TrainingData data(c);
  ASSERT_EQ(data.segments().size(), 3u);
  EXPECT_EQ(data.segments()[1].first_sample, 10u);
  EXPECT_EQ(data.segments()[2].first_sample, 11u);
  c.data.segment[1].from_tokens = 150;
  c.data.segment[0].from_tokens = 145;
  EXPECT_EQ(error_of([&] { TrainingData again(c); }).message(),
            "data.segment.1.from_tokens = 150 is within a sequence of the segment before it");
}

TEST_F(TrainingDataTest, AResumeWithTheSameFileIsTheSameMixtureWhereverItHappens) {
  config::RunConfig c = config({{"a", 3}, {"b", 1}, {"c", 1}});
  c.data.segment = {{16 * 100, {1, 1, 0}}, {16 * 200, {2, 2, 0}}, {16 * 300, {0, 1, 1}}};
  const TrainingData whole(c);
  EXPECT_EQ(whole.segments().size(), 3u);           // the segment from 200 has the shares of the one before
  EXPECT_EQ(whole.state(100).segments.size(), 1u);  // the next has not begun
  EXPECT_EQ(whole.state(101).segments.size(), 2u);
  for (const uint64_t next : {0, 1, 99, 100, 101, 199, 200, 250, 300, 301, 100'000}) {
    TrainingData resumed(c);
    resumed.continue_from(whole.state(next));
    EXPECT_EQ(resumed.segments(), whole.segments()) << next;
  }
}

TEST_F(TrainingDataTest, WeightsChangedAtAResumeHoldFromThereAndThePastStays) {
  const TrainingData before(config({{"a", 3}, {"b", 1}}));
  TrainingData after(config({{"a", 1}, {"b", 1}}));
  after.continue_from(before.state(500));
  EXPECT_EQ(after.segments(), (std::vector<MixtureSegment>{{0, {3, 1}}, {500, {1, 1}}}));
  const Sampler was = sampler(before), is = sampler(after);
  for (uint64_t g = 0; g < 500; ++g) ASSERT_EQ(was.sample(g).first_token, is.sample(g).first_token) << g;
  // Twice, and back again: each change is a segment, except a change without samples.
  TrainingData third(config({{"a", 3}, {"b", 1}}));
  third.continue_from(after.state(800));
  EXPECT_EQ(third.segments(), (std::vector<MixtureSegment>{{0, {3, 1}}, {500, {1, 1}}, {800, {3, 1}}}));
  TrainingData fourth(config({{"a", 3}, {"b", 1}}));
  fourth.continue_from(after.state(500));
  EXPECT_EQ(fourth.segments(), (std::vector<MixtureSegment>{{0, {3, 1}}}));
}

TEST_F(TrainingDataTest, SourcesMayBeAddedAndReorderedButNotRemoved) {
  const TrainingData before(config({{"a", 3}, {"b", 1}}));
  TrainingData more(config({{"c", 2}, {"b", 1}, {"a", 3}}));
  more.continue_from(before.state(500));
  EXPECT_EQ(more.segments(), (std::vector<MixtureSegment>{{0, {3, 1, 0}}, {500, {3, 1, 2}}}));
  EXPECT_EQ(Path(more.sources()[0].path).filename(), "a");
  EXPECT_EQ(Path(more.sources()[2].path).filename(), "c");
  EXPECT_EQ(more.sources()[2].number, 0u);

  TrainingData fewer(config({{"a", 3}}));
  const Error error = error_of([&] { fewer.continue_from(before.state(500)); });
  EXPECT_EQ(error.code(), ExitCode::kUser);
  EXPECT_TRUE(error.message().ends_with("that is not among the sources")) << error.message();
}

TEST_F(TrainingDataTest, ARunThatSeesASourceTooOftenIsRefusedWithTheStepsThatArePossible) {
  config::RunConfig c = config({{"a", 1}, {"b", 1, 2}});
  const TrainingData data(c);
  const Sampler order = sampler(data);
  const int64_t windows = order.windows(1);
  uint64_t g = 0;  // the first sample that begins b's third epoch
  while (order.sample(g).source != 1 || order.sample(g).epoch < 2) ++g;
  const auto refused_by = [&](uint64_t samples) -> std::string {
    try {
      data.check_epochs(order, samples, 4);
    } catch (const Error& e) {
      return e.message();
    }
    return "accepted";
  };
  EXPECT_EQ(refused_by(g), "accepted");
  EXPECT_NE(refused_by(g + 1), "accepted");
  const Error error = error_of([&] { data.check_epochs(order, g + 1, 4); });
  EXPECT_EQ(error.code(), ExitCode::kUser);
  EXPECT_THAT(error.message(), HasSubstr("2.00 times; data.source.1.epochs_max is 2")) << error.message();
  EXPECT_EQ(error.why(), fmt::format("{} of the run's {} sequences come from it, and it has only {}", 2 * windows + 1,
                                     g + 1, windows));
  EXPECT_TRUE(error.fix().starts_with(fmt::format("train {} steps at most", g / 4))) << error.fix();
  const Error one_by_one = error_of([&] { data.check_epochs(order, g + 1, 1); });
  EXPECT_TRUE(one_by_one.fix().starts_with(fmt::format("train {} steps at most", g))) << one_by_one.fix();
}

TEST_F(TrainingDataTest, ASequentialOrderIsThatOfTheTextInEachEpoch) {
  config::RunConfig c = config({});
  c.data.path = "b";
  c.data.order = config::DataOrder::kSequential;
  const TrainingData data(c);
  const Sampler order = sampler(data);
  const int64_t windows = order.windows(0);
  ASSERT_GT(windows, 10);
  for (int64_t g = 0; g < 2 * windows + 3; ++g) {
    const Sample sample = order.sample(static_cast<uint64_t>(g));
    ASSERT_EQ(sample.first_token, g % windows * 16) << g;
    ASSERT_EQ(sample.epoch, static_cast<uint64_t>(g / windows)) << g;
  }
  // Two ranks read the same global batches, across the end of an epoch.
  const auto first = static_cast<uint64_t>(windows - 6);
  Loader one(data.splits(), loading(data, first)), two(data.splits(), loading(data, first, 4, 2));
  for (int step = 0; step < 3; ++step) {
    const StepBatch all = one.next(), half = two.next();
    ASSERT_EQ(all.micro_batches.size(), 1u);
    ASSERT_EQ(half.micro_batches.size(), 1u);
    EXPECT_EQ(std::vector<int32_t>(all.micro_batches[0].tokens.begin(), all.micro_batches[0].tokens.begin() + 32),
              std::vector<int32_t>(half.micro_batches[0].tokens.begin(), half.micro_batches[0].tokens.end()))
        << step;
  }
}

config::RunConfig neox(config::RunConfig c, int64_t steps) {
  c.data.order = config::DataOrder::kNeox;
  c.data.stride = config::Stride::kNeox;
  c.data.weight_rule = config::WeightRule::kNeox;
  c.training.steps = steps;
  c.training.local_batch_size = 10;
  return c;
}

TEST_F(TrainingDataTest, TablesOfGptNeoxsOrderAreAsLongAsItsRuleMakesThem) {
  const TrainingData data(neox(config({{"a", 3}, {"b", 1}}), 40));
  // For 400 samples, 302 and 101 are requested: as many epochs as contain them.
  for (size_t i = 0; i < 2; ++i) {
    const int64_t tokens = data.splits()[i]->tokens(), asked = i == 0 ? 302 : 101;
    int64_t epochs = 1;
    while ((epochs * tokens - 1) / 16 < asked) ++epochs;
    EXPECT_EQ(data.order().tables[i]->epochs(), epochs) << i;
    EXPECT_EQ(data.order().tables[i]->windows(), (epochs * tokens - 1) / 16) << i;
  }
  EXPECT_EQ(data.windows(), (data.splits()[0]->tokens() - 1) / 16 + (data.splits()[1]->tokens() - 1) / 16);
  config::RunConfig one = neox(config({}), 40);
  one.data.path = "b";
  one.data.weight_rule = config::WeightRule::kSlots;
  const TrainingData single(one);
  EXPECT_GE(single.order().tables[0]->windows(), 400);
  EXPECT_LT(single.order().tables[0]->windows() - (single.splits()[0]->tokens() - 1) / 16 - 1, 400);
  EXPECT_THAT(single.notes().at(0), HasSubstr("in GPT-NeoX's order"));

  // Counted in epochs of the data, not in passes through the table.
  const auto use = data.use(sampler(data), 400);
  EXPECT_NEAR(use[0].epochs, 300 * 16 / static_cast<double>(data.splits()[0]->tokens()), 0.05);
}

TEST_F(TrainingDataTest, TheTableOfOnePathIsMadeForTheRunsSamplesAlone) {
  config::RunConfig c = neox(config({}), 1);
  c.data.path = "b";
  c.data.weight_rule = config::WeightRule::kSlots;
  c.training.local_batch_size = 1;
  const int64_t tokens = Dataset::open(*scratch_ / "b").split("train").tokens();
  c.training.steps = (2 * tokens - 1) / 16;  // as many as two epochs have: half a percent more would need a third
  EXPECT_EQ(TrainingData(c).order().tables[0]->epochs(), 2);
}

TEST_F(TrainingDataTest, TablesGoWithTheirSourcesWhereTheseStandInAnotherOrder) {
  const auto packed = [](std::vector<config::DataSource> sources) {
    config::RunConfig c = config(std::move(sources));
    c.data.packing = config::Packing::kBestFit;
    return c;
  };
  const TrainingData before(packed({{"a", 3}, {"b", 1}}));
  TrainingData after(packed({{"b", 1}, {"a", 3}}));
  after.continue_from(before.state(100));
  for (size_t i = 0; i < 2; ++i)
    EXPECT_EQ(after.order().tables[i]->windows(), before.order().tables[i]->windows()) << i;
  EXPECT_NE(before.order().tables[0]->windows(), before.order().tables[1]->windows());
}

TEST_F(TrainingDataTest, ACheckpointInAnotherVersionOfTheOrderIsNotContinued) {
  const std::vector<config::DataSource> sources = {{"a", 3}, {"b", 1}};
  DataState state = TrainingData(config(sources)).state(500);
  state.order_version = 1;
  TrainingData after(config(sources));
  const Error error = error_of([&] { after.continue_from(state); });
  EXPECT_EQ(error.code(), ExitCode::kUser);
  EXPECT_EQ(error.message(),
            "the checkpoint's run takes its samples in an order of version 1, this program in version 2");
  // GPT-NeoX's order does not depend on our order's version.
  DataState old = TrainingData(neox(config(sources), 40)).state(100);
  old.order_version = 1;
  TrainingData by_neox(neox(config(sources), 40));
  by_neox.continue_from(old);
  EXPECT_EQ(by_neox.state(101).order_samples, old.order_samples);
  EXPECT_EQ(by_neox.state(101).order_version, kSampleOrderVersion);
}

TEST_F(TrainingDataTest, ALongerRunGoesOnWithTheTablesItBeganWith) {
  const TrainingData before(neox(config({{"a", 3}, {"b", 1}}), 40));
  EXPECT_EQ(before.state(100).order_samples, 400u);
  TrainingData after(neox(config({{"a", 3}, {"b", 1}}), 400));
  EXPECT_NE(after.order().tables[0]->windows(), before.order().tables[0]->windows());
  after.continue_from(before.state(100));
  EXPECT_EQ(after.state(500).order_samples, 400u);
  const Sampler was = sampler(before), is = sampler(after);
  for (uint64_t g = 0; g < 1000; ++g) {
    ASSERT_EQ(was.sample(g).source, is.sample(g).source) << g;
    ASSERT_EQ(was.sample(g).window, is.sample(g).window) << g;
  }
}

TEST_F(TrainingDataTest, WithGptNeoxsRuleTheMixtureHoldsFromBeginningToEnd) {
  const TrainingData before(neox(config({{"a", 3}, {"b", 1}}), 40));
  const auto error_with = [&](std::vector<config::DataSource> sources) {
    TrainingData after(neox(config(std::move(sources)), 40));
    return error_of([&] { after.continue_from(before.state(100)); });
  };
  EXPECT_EQ(error_with({{"a", 3}, {"b", 2}}).code(), ExitCode::kUser);
  EXPECT_EQ(error_with({{"a", 3}, {"b", 1}, {"c", 1}}).message(),
            "the sources or their weights are not those that the checkpoint was trained with");
  TrainingData turned(neox(config({{"b", 1}, {"a", 3}}), 40));
  turned.continue_from(before.state(100));
  const Sampler was = sampler(before), is = sampler(turned);
  for (uint64_t g = 0; g < 400; ++g) {
    ASSERT_EQ(was.sample(g).source, is.sample(g).source) << g;
    ASSERT_EQ(was.sample(g).window, is.sample(g).window) << g;
  }
}

TEST_F(TrainingDataTest, BestFitPackingTellsItsPaddingAndIsMadeOnce) {
  for (const char* name : {"a", "b"}) remove_tree(*scratch_ / name / "tables");  // of earlier tests
  config::RunConfig c = config({{"a"}, {"b"}});
  c.data.packing = config::Packing::kBestFit;
  const TrainingData data(c);
  EXPECT_EQ(data.windows(), data.order().tables[0]->windows() + data.order().tables[1]->windows());
  for (const std::string& note : data.notes()) {
    EXPECT_THAT(note, HasSubstr(" sequences by best fit, ")) << note;
    EXPECT_THAT(note, HasSubstr(" % of their positions are padding")) << note;
    EXPECT_THAT(note, HasSubstr("; the table took ")) << note;
  }
  const TrainingData again(c);
  EXPECT_THAT(again.notes()[0], Not(HasSubstr("the table took"))) << again.notes()[0];
  for (const std::string& name : list_folder(*scratch_ / "a" / "tables"))
    write_text(*scratch_ / "a" / "tables" / name, "no table");
  const TrainingData third(c);
  EXPECT_THAT(third.notes()[0], HasSubstr("; made again: table ")) << third.notes()[0];
  EXPECT_EQ(third.windows(), data.windows());
}

TEST_F(TrainingDataTest, TheSameDatasetTwiceAndOtherTokenizersAreRefused) {
  std::filesystem::copy(*scratch_ / "a", *scratch_ / "copy",
                        std::filesystem::copy_options::overwrite_existing | std::filesystem::copy_options::recursive);
  EXPECT_TRUE(error_of([] {
                TrainingData data(config({{"a"}, {"copy"}}));
              })
                  .message()
                  .ends_with("are the same dataset"));
  // A manifest with another tokenizer's name.
  DatasetManifest manifest = read_manifest(*scratch_ / "b");
  manifest.tokenizer_hash = "0123456789abcdef0123456789abcdef";
  make_folders(*scratch_ / "other");
  for (const std::string& name : list_folder(*scratch_ / "b"))
    if (name != "tables")
      std::filesystem::copy_file(*scratch_ / "b" / name, *scratch_ / "other" / name,
                                 std::filesystem::copy_options::overwrite_existing);
  write_file_atomic(*scratch_ / "other" / std::string(kManifestName), manifest_text(manifest));
  const Error error = error_of([] { TrainingData data(config({{"a"}, {"other"}})); });
  EXPECT_EQ(error.code(), ExitCode::kUser);
  EXPECT_THAT(error.message(), HasSubstr("was built with another tokenizer than")) << error.message();
  EXPECT_THAT(error.why(), HasSubstr("0123456789abcdef"));
}

}  // namespace
}  // namespace hearth::data
