// SPDX-License-Identifier: Apache-2.0
// Weights of tokens in the loss, from counts to batches.
#include "data/study/token_weights.h"

#include <gmock/gmock.h>
#include <array>
#include <cmath>
#include <limits>

#include "data/batch/loader.h"
#include "recordings/spike_folder.h"
#include "recordings/spike_vocabulary.h"
#include "support/python.h"
#include "tokenizer/formats/array_tokenizer.h"
#include "tokenizer/formats/bytes.h"

namespace hearth::data {
namespace {

using testing::HasSubstr;

using test::ScratchFolder;

SplitStats counted(std::vector<int64_t> counts) {
  SplitStats stats;
  stats.name = "train";
  stats.token_counts = std::move(counts);
  return stats;
}

TEST(TokenWeights, AreOneByTheProbabilityUpToThatOfTheCapAndOneForBos) {
  const tokenizer::ArrayTokenizer spikes(std::make_unique<recordings::SpikeVocabulary>(8));  // BOS = 7
  EXPECT_EQ(token_weights(counted({50, 25, 10, 10, 4, 1, 0, 1000}), spikes, 3),
            (std::vector<float>{2, 4, 10, 10, 10, 10, 10, 1}));
  EXPECT_EQ(token_weights(counted({50, 25, 10, 10, 4, 1, 0, 1000}), spikes, 5),
            (std::vector<float>{2, 4, 10, 10, 25, 100, 100, 1}));
  // The cap's id, and others below it, may be missing; a token after it may be frequent.
  EXPECT_EQ(token_weights(counted({0, 25, 0, 25, 50, 0, 0, 9}), spikes, 2),
            (std::vector<float>{4, 4, 4, 4, 2, 4, 4, 1}));
  EXPECT_EQ(error_of([&] {
              token_weights(counted({0, 0, 0, 25, 50, 0, 0, 9}), spikes, 2);
            }).message(),
            "no token up to id 2 occurs in split train");
  // In text BOS is a token like any other.
  std::vector<int64_t> counts(258);
  counts[0] = 3;
  counts[256] = 1;
  const std::vector<float> of_text = token_weights(counted(counts), tokenizer::BytesTokenizer(), 256);
  EXPECT_EQ(of_text[256], 4.0F);
  EXPECT_EQ(of_text[257], 4.0F);
}

TEST(TokenWeights, DataStatsWritesWhatNumpyMakesOfTheStream) {
  HEARTH_NEEDS_ORACLE();
  const ScratchFolder scratch;
  const auto python = [](const std::string& words) {
    const auto result = test::run_python("tests/recordings/spikes_reference.py " + words);
    EXPECT_EQ(result.exit_code, 0) << result.output;
    return result.output;
  };
  const std::string out = (scratch / "out").string(), weights = (scratch / "weights.npy").string();
  python(fmt::format("make {}/rec", scratch.path().string()));
  build(out, {scratch / "rec"}, spikes());
  const auto stats =
      test::run_command(fmt::format("{} data stats --token-weights {} {}", test::hearth_binary(), weights, out));
  EXPECT_EQ(stats.exit_code, 0) << stats.output;
  EXPECT_EQ(python(fmt::format("weights {}/rec {}", scratch.path().string(), weights)), "equal\n");
  const auto alone = test::run_command(test::hearth_binary() + " data stats --weight-cap 3 " + out);
  EXPECT_EQ(alone.exit_code, 2);
  EXPECT_THAT(alone.output, HasSubstr("--weight-cap goes with --token-weights")) << alone.output;
}

TEST(TokenWeights, AFileThatDoesNotFitIsRefused) {
  const ScratchFolder scratch;
  const Path path = scratch / "weights.npy";
  const auto message = [&](std::vector<float> weights) {
    formats::write_npy_vector(path, weights);
    return error_of([&] { read_token_weights(path, 3); }).message().substr(path.string().size());
  };
  formats::write_npy_vector(path, std::vector<float>{1, 0, 0.5F});
  EXPECT_EQ(read_token_weights(path, 3), (std::vector<float>{1, 0, 0.5F}));
  EXPECT_EQ(message({1, 2}), " has 2 token weights");
  EXPECT_EQ(message({0, 0, 0}), ": the weights of all tokens are 0");
  EXPECT_EQ(message({1, -2, 1}), ": the weight of token 1 is -2");
  EXPECT_EQ(message({std::numeric_limits<float>::infinity(), 2, 1}), ": the weight of token 0 is inf");
  EXPECT_EQ(message({std::nanf(""), 2, 1}), ": the weight of token 0 is nan");
}

TEST(TokenWeights, NumbersOfNumpyAndWhatPyTorchSavedAreReadOrSayHow) {
  HEARTH_NEEDS_ORACLE();
  const ScratchFolder scratch;
  const auto python = [](const std::string& code) {
    const auto run = test::run_python(fmt::format("-c \"{}\"", code));
    EXPECT_EQ(run.exit_code, 0) << run.output;
  };
  const Path wide = scratch / "wide.npy", large = scratch / "large.npy", whole = scratch / "whole.npy";
  python(
      fmt::format("import numpy, torch; numpy.save('{}', numpy.array([0, 0.1, 1e39])); "
                  "numpy.save('{}', numpy.array([0, 0.1, 3e38])); numpy.save('{}', numpy.array([1, 2, 3])); "
                  "[torch.save(torch.tensor([0, 0.1, 3]), '{}/' + name, _use_new_zipfile_serialization=new) "
                  "for name, new in (('old.pt', False), ('weights.pt', True))]",
                  wide.string(), large.string(), whole.string(), scratch.path().string()));
  EXPECT_EQ(error_of([&] { read_token_weights(wide, 3); }).message(), wide.string() + ": the weight of token 2 is inf");
  EXPECT_EQ(read_token_weights(large, 3), (std::vector<float>{0, 0.1F, 3e38F}));
  const Error integers = error_of([&] { read_token_weights(whole, 3); });
  EXPECT_EQ(integers.why(), "it has 1 dimensions and elements \"<i8\"");
  EXPECT_TRUE(integers.fix().starts_with("write one: numpy.save(")) << integers.fix();
  std::string commands;
  for (const char* name : {"old.pt", "weights.pt"}) {
    const Error error = error_of([&] { read_token_weights(scratch / name, 3); });
    EXPECT_EQ(error.why(), "it begins like a file of torch.save");
    const std::string fix = error.fix();
    ASSERT_TRUE(fix.starts_with("convert it: python3 -c \"import")) << fix;
    const size_t code = fix.find("import");
    commands += fix.substr(code, fix.size() - code - 1) + "; ";
  }
  python(commands);  // what the two errors say
  for (const char* name : {"old.npy", "weights.npy"})
    EXPECT_EQ(read_token_weights(scratch / name, 3), (std::vector<float>{0, 0.1F, 3}));
}

// As with labels of -100. In runs with hidden tokens, such a token is never hidden.
TEST(TokenWeights, ALabelOfWeightZeroIsNoneAndIsNotHidden) {
  const ScratchFolder scratch;
  write_array(scratch / "rec" / "a.npy", 3, 70, std::string(70, '\1') + std::string(70, '\2') + std::string(70, '\3'));
  build(scratch / "out", {scratch / "rec"}, spikes());
  const Dataset dataset = Dataset::open(scratch / "out");
  for (const bool masked : {false, true}) {
    LoaderOptions options;
    options.seq_len = 10;
    options.global_batch_size = options.local_batch_size = 4;
    options.token_weights.assign(256, 1);
    options.token_weights[2] = 0;
    options.token_weights[3] = 0.25F;
    if (masked) options.labels.masking = Masking{.probability = 0.9, .mask_id = 9, .vocab_size = 256};
    options.order.masked = masked;
    Loader loader(dataset.split("train"), options);
    std::array<int, 4> labels{}, seen{};
    for (int step = 0; step < 5; ++step) {
      const Batch micro = loader.next().micro_batches[0];
      for (size_t i = 0; i < micro.labels.size(); ++i) {
        const int32_t label = micro.labels[i];
        EXPECT_EQ(micro.weights[i], label == kIgnore ? 0 : label == 3 ? 0.25F : 1);
        if (label >= 0 && label < 4) ++labels[static_cast<size_t>(label)];
        if (micro.tokens[i] < 4) ++seen[static_cast<size_t>(micro.tokens[i])];
      }
    }
    EXPECT_EQ(labels[2], 0);
    EXPECT_GT(std::min(labels[1], labels[3]), 20);
    EXPECT_GT(seen[2], masked ? 3 * seen[1] : 20);
  }
}

TEST(TokenWeights, ABatchHasTheWeightOfEachLabel) {
  const ScratchFolder scratch;
  write_array(scratch / "rec" / "a.npy", 3, 7, std::string(20, '\1') + '\2');
  build(scratch / "out", {scratch / "rec"}, spikes());
  const Dataset dataset = Dataset::open(scratch / "out");
  LoaderOptions options;
  options.seq_len = 10;
  options.global_batch_size = options.local_batch_size = 2;
  options.shuffle = false;
  EXPECT_TRUE(Loader(dataset.split("train"), options).next().micro_batches[0].weights.empty());
  options.token_weights.resize(256);
  for (size_t id = 0; id < 256; ++id) options.token_weights[id] = static_cast<float>(id) + 0.5F;
  Loader loader(dataset.split("train"), options);  // 28 tokens: windows of 10, 10 and 7 labels, and an empty one
  for (int step = 0; step < 2; ++step) {
    const StepBatch batch = loader.next();
    const Batch& micro = batch.micro_batches[0];
    ASSERT_EQ(micro.weights.size(), 20u);
    for (size_t i = 0; i < 20; ++i)
      EXPECT_EQ(micro.weights[i], micro.labels[i] == kIgnore ? 0 : static_cast<float>(micro.labels[i]) + 0.5F) << i;
    if (step == 1) {
      EXPECT_EQ(std::count(micro.labels.begin(), micro.labels.end(), kIgnore), 13);
    }
  }
}

}  // namespace
}  // namespace hearth::data
