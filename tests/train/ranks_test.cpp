// SPDX-License-Identifier: Apache-2.0
// The number of ranks changes neither the losses nor who can read a checkpoint.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "tiny_run.h"

namespace hearth::train {
namespace {

using testing::HasSubstr;
using testing::Not;

config::RunConfig with_ranks(const Path& folder, int64_t ranks, const std::string& name) {
  config::RunConfig c = tiny_config(folder);
  c.job.dump_folder = name;
  c.parallelism.data_parallel_shard_degree = ranks;
  return c;
}

std::vector<float> floats(const std::vector<std::byte>& bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

struct Ranks : TinyData {};

TEST_F(Ranks, InFloat64OneTwoAndFourRanksGiveTheSameLosses) {
  std::vector<metrics::StepRecord> one;
  for (const int64_t ranks : {1, 2, 4}) {
    config::RunConfig c = with_ranks(scratch, ranks, fmt::format("run{}", ranks));
    c.training.dtype = DType::kFloat64;
    c.training.steps = 40;
    c.validation.freq = 10;
    const auto records = train(c);
    if (ranks == 1) one = records;
    ASSERT_EQ(records.size(), 41u);
    EXPECT_LT(*records.back().loss, *records[1].loss);
    expect_curves_near(records, one);
    for (size_t i = 0; i < records.size(); ++i) {
      EXPECT_EQ(records[i].tokens, records[i].step * c.training.global_batch_size * c.training.seq_len) << ranks;
      EXPECT_EQ(records[i].validation_loss.has_value(), i % 10 == 0);
    }
  }
}

TEST_F(Ranks, WhereAttentionKeepsToDocumentsTheyGiveTheSameLossesAndOtherOnesThanWithWindows) {
  build_tiny_data(scratch / "short", /*words_per_document=*/9);  // some four documents a window
  std::vector<metrics::StepRecord> one;
  for (const int64_t ranks : {1, 2, 4}) {
    config::RunConfig c = with_ranks(scratch, ranks, fmt::format("run{}", ranks));
    c.data.path = "short/data";
    c.model.attention_scope = config::AttentionScope::kDocument;
    c.training.dtype = DType::kFloat64;
    c.training.steps = 6;
    const auto records = train(c);
    if (ranks == 1) one = records;
    ASSERT_EQ(records.size(), one.size());
    for (size_t i = 0; i < records.size(); ++i) EXPECT_NEAR(*records[i].loss, *one[i].loss, 1e-9 * *one[i].loss);
  }
  config::RunConfig windows = with_ranks(scratch, 1, "windows");
  windows.data.path = "short/data";
  windows.training.dtype = DType::kFloat64;
  windows.training.steps = 1;
  EXPECT_GT(std::abs(*train(windows).front().loss - *one.front().loss), 1e-6);
}

// A tied model without parameters in its norms: its last unit is empty.
TEST_F(Ranks, AModelWhoseNormsHaveNoParametersTrainsOnAnyOfThemAndGoesOnFromItsCheckpoint) {
  std::vector<metrics::StepRecord> one;
  for (const int64_t ranks : {1, 2, 4}) {
    config::RunConfig c = with_ranks(scratch, ranks, fmt::format("run{}", ranks));
    c.model.norm_type = config::NormType::kNpLayerNorm;
    c.model.enable_weight_tying = true;
    c.training.dtype = DType::kFloat64;
    c.training.steps = 3;
    train(c);
    c.training.steps = 6;
    const auto records = train(c);
    if (ranks == 1) one = records;
    ASSERT_EQ(records.size(), one.size());
    for (size_t i = 0; i < records.size(); ++i) EXPECT_NEAR(*records[i].loss, *one[i].loss, 1e-9 * *one[i].loss);
    for (const auto& [name, bytes] : tensors_of(step_of(c, 6))) EXPECT_THAT(name, Not(HasSubstr("norm")));
  }
}

TEST_F(Ranks, InFloat32TheGradientsOfStepOneAgreeTo1e6) {
  std::map<std::string, std::vector<std::byte>> one;
  for (const int64_t ranks : {1, 2, 4}) {
    config::RunConfig c = with_ranks(scratch, ranks, fmt::format("run{}", ranks));
    c.training.steps = 1;
    train(c);
    const auto tensors = tensors_of(step_of(c, 1));
    if (ranks == 1) one = tensors;
    ASSERT_EQ(tensors.size(), one.size());
    int64_t moments = 0;
    for (const auto& [name, bytes] : tensors) {
      // After one step exp_avg is the gradient times (1 - beta1) times the clip factor, which is the same for all.
      if (!name.ends_with(".exp_avg")) continue;
      ++moments;
      const auto ours = floats(bytes), theirs = floats(one.at(name));
      double difference = 0, norm = 0;
      for (size_t i = 0; i < ours.size(); ++i) {
        difference += std::pow(static_cast<double>(ours[i]) - static_cast<double>(theirs[i]), 2);
        norm += std::pow(static_cast<double>(theirs[i]), 2);
      }
      EXPECT_LE(std::sqrt(difference), 1e-6 * std::sqrt(norm)) << name << " with " << ranks << " ranks";
    }
    EXPECT_EQ(moments, 3 + 2 * 9);
  }
}

TEST_F(Ranks, InFloat32TwoHundredStepsAgreeTo1e3) {
  std::vector<metrics::StepRecord> one;
  for (const int64_t ranks : {1, 2, 4}) {
    config::RunConfig c = with_ranks(scratch, ranks, fmt::format("run{}", ranks));
    c.training.steps = 200;
    c.optimizer.lr = 3e-3;
    c.checkpoint.interval = 0;
    const auto records = train(c);
    if (ranks == 1) one = records;
    ASSERT_EQ(records.size(), 200u);
    for (size_t i = 0; i < records.size(); ++i) EXPECT_NEAR(*records[i].loss, *one[i].loss, 1e-3 * *one[i].loss);
  }
}

TEST_F(Ranks, ACheckpointOfAnyNumberOfRanksIsReadBitForBitByAnyOther) {
  for (const int64_t writers : {1, 2, 4}) {
    config::RunConfig first = with_ranks(scratch, writers, fmt::format("from{}", writers));
    first.training.steps = 4;
    train(first);
    const auto written = tensors_of(step_of(first, 4));
    for (const int64_t readers : {1, 2, 4}) {
      // A branch with learning rate zero writes the values that it read.
      config::RunConfig second = with_ranks(scratch, readers, fmt::format("from{}to{}", writers, readers));
      second.checkpoint.initial_load_path = step_of(first, 4).string();
      second.checkpoint.initial_load_model_only = true;
      second.optimizer.lr = 0;
      second.training.steps = 1;
      train(second);
      for (const auto& [name, bytes] : tensors_of(step_of(second, 1))) {
        if (name.starts_with("optimizer.")) continue;
        EXPECT_EQ(bytes, written.at(name)) << name << ": " << writers << " to " << readers;
      }
    }
  }
}

// Tied and untied, with accumulation, a model with more layers than slots, and validation between steps.
TEST_F(Ranks, EveryStageOfZeroAndHsdpTrainAsOneRank) {
  for (const bool tied : {false, true}) {
    config::RunConfig one = with_ranks(scratch, 1, fmt::format("one-{}", tied));
    one.training.dtype = DType::kFloat64;
    one.model.n_layers = 4;
    one.model.enable_weight_tying = tied;
    one.training.local_batch_size = 1;
    one.training.global_batch_size = 12;
    one.training.steps = 8;
    one.validation.freq = 4;
    one.validation.steps = 1;
    one.objective.z_loss = 1e-4;
    const auto expected = train(one);
    for (const auto& [replicas, shards] : {std::pair<int64_t, int64_t>{1, 1}, {1, 3}, {1, 4}, {2, 2}, {3, 1}}) {
      for (const int64_t stage : {1, 2, 3}) {
        config::RunConfig c = one;
        c.job.dump_folder = fmt::format("{}x{}-{}-{}", replicas, shards, stage, tied);
        c.parallelism = {replicas, shards, stage};
        c.training.threads = c.parallelism.ranks();
        const auto records = train(c);
        ASSERT_EQ(records.size(), expected.size());
        for (size_t i = 0; i < records.size(); ++i) {
          // Before the first step there is a validation loss alone.
          for (const auto& [member, tolerance] :
               {std::pair(&metrics::StepRecord::loss, 1e-9), std::pair(&metrics::StepRecord::grad_norm, 1e-8),
                std::pair(&metrics::StepRecord::validation_loss, 1e-8)}) {
            ASSERT_EQ((records[i].*member).has_value(), (expected[i].*member).has_value());
            const double other = (expected[i].*member).value_or(1);
            EXPECT_NEAR((records[i].*member).value_or(1), other, tolerance * other) << c.job.dump_folder;
          }
        }
      }
    }
  }
}

TEST_F(Ranks, AStageAndReplicasMayChangeAtAResume) {
  config::RunConfig whole = with_ranks(scratch, 1, "whole");
  whole.training.dtype = DType::kFloat64;
  const auto expected = train(whole);
  config::RunConfig c = with_ranks(scratch, 1, "changing");
  c.training.dtype = DType::kFloat64;
  int64_t steps = 0;
  for (const config::Parallelism& layout : {config::Parallelism{1, 1, 3}, {1, 4, 3}, {2, 2, 2}, {4, 1, 1}}) {
    c.parallelism = layout;
    c.training.threads = layout.ranks();
    c.training.steps = steps += 3;
    const auto records = train(c);
    ASSERT_EQ(std::ssize(records), steps);
    for (size_t i = 0; i < records.size(); ++i) EXPECT_NEAR(*records[i].loss, *expected[i].loss, 1e-9);
  }
}

TEST_F(Ranks, ARunResumedWithAnotherNumberOfRanksGoesOnAsItWould) {
  config::RunConfig whole = with_ranks(scratch, 1, "whole");
  whole.training.dtype = DType::kFloat64;
  const auto expected = train(whole);
  for (const auto& [before, after] : {std::pair<int64_t, int64_t>{1, 4}, {4, 2}, {2, 1}}) {
    config::RunConfig c = with_ranks(scratch, before, fmt::format("run{}{}", before, after));
    c.training.dtype = DType::kFloat64;
    c.training.steps = 6;
    train(c);
    c.training.steps = 12;
    c.parallelism.data_parallel_shard_degree = after;
    const auto records = train(c);
    ASSERT_EQ(records.size(), 12u);
    for (size_t i = 0; i < 12; ++i) EXPECT_NEAR(*records[i].loss, *expected[i].loss, 1e-9 * *expected[i].loss);
  }
}

}  // namespace
}  // namespace hearth::train
