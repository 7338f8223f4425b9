// SPDX-License-Identifier: Apache-2.0
// One training's checkpoint as the start of another: the loaded parts, the fresh parts, and that nothing is left out
// silently.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "checkpoint/average.h"
#include "checkpoint/save.h"
#include "poisoned.h"
#include "run/state.h"
#include "tiny_run.h"

namespace hearth::train {
namespace {

using testing::HasSubstr;
using testing::Not;

struct Chain : TinyData {
  Chain() {
    build_tiny_spikes(scratch, "spikes", 12);
    build_tiny_data(scratch / "other", 300);
  }
  config::RunConfig named(const std::string& name) const {
    config::RunConfig c = tiny_config(scratch);
    c.job.dump_folder = name;
    return c;
  }
  // A run that begins with the last checkpoint of `first`.
  config::RunConfig after(const std::string& name) const {
    config::RunConfig c = named(name);
    c.checkpoint.initial_load_path = "first/checkpoints/step-00000012";
    return c;
  }
  // Its weights before any step.
  static std::map<std::string, std::vector<std::byte>> beginning(config::RunConfig c) {
    c.optimizer.lr = 0;
    c.training.steps = std::max<int64_t>(c.training.steps, 1);
    train(c);
    return tensors_of(step_of(c, c.training.steps));
  }
};

TEST_F(Chain, FromLanguageToSpikesWithFreshInputAndOutput) {
  train(named("first"));
  config::RunConfig c = after("second");
  c.data.path = "spikes";
  c.objective.kind = config::ObjectiveKind::kSpikeLm;
  c.lr_scheduler.warmup_steps = 0;
  c.training.steps = 1;
  // Another vocabulary: 256 rows instead of 258.
  const Error error = error_of([&] { run_training(c, {}); });
  EXPECT_THAT(error.message(), HasSubstr("does not fit the model")) << error.what();
  EXPECT_THAT(error.message(), HasSubstr("tok_embeddings.weight: [258, 32] in the checkpoint, [256, 32] in the model"));
  EXPECT_THAT(error.message(), HasSubstr("output.weight: [258, 32]")) << "all at once";

  c.checkpoint.fresh = {"tok_embeddings", "output"};
  const auto begun = beginning(c), first = tensors_of(step_of(named("first"), 12));
  config::RunConfig scratch_run = c;
  scratch_run.job.dump_folder = "scratch";
  scratch_run.checkpoint.initial_load_path.clear();
  scratch_run.checkpoint.fresh.clear();
  const auto initial = beginning(scratch_run);
  for (const auto& [name, bytes] : begun) {
    if (name.starts_with("optimizer")) continue;
    const bool fresh = name == "tok_embeddings.weight" || name == "output.weight";
    EXPECT_EQ(bytes, fresh ? initial.at(name) : first.at(name)) << name;
  }
}

TEST_F(Chain, FromTheMeanOfTwoCheckpoints) {
  config::RunConfig first = named("first");
  first.checkpoint.interval = 6;
  train(first);
  checkpoint::AverageProgress progress;
  const std::vector<checkpoint::AverageInput> inputs = {{step_of(first, 6)}, {step_of(first, 12)}};
  checkpoint::average_checkpoints(inputs, scratch / "mean", progress);
  config::RunConfig c = after("second");
  c.checkpoint.initial_load_path = "mean";
  const auto begun = beginning(c), early = tensors_of(step_of(first, 6)), late = tensors_of(step_of(first, 12));
  size_t weights = 0;
  for (const auto& [name, bytes] : begun) {
    if (name.starts_with("optimizer")) continue;
    ++weights;
    EXPECT_NE(early.at(name), late.at(name)) << name;
    for (size_t i = 0; i + sizeof(float) <= bytes.size(); i += sizeof(float)) {
      float mean = 0, a = 0, b = 0;
      std::memcpy(&mean, bytes.data() + i, sizeof mean);
      std::memcpy(&a, early.at(name).data() + i, sizeof a);
      std::memcpy(&b, late.at(name).data() + i, sizeof b);
      ASSERT_EQ(mean, static_cast<float>((double{a} + double{b}) / 2)) << name << " " << i;
    }
  }
  EXPECT_EQ(weights, checkpoint::Reader::open(scratch / "mean").tensors().size());
  // It has no state of a training: no run goes on with it.
  c.checkpoint.initial_load_model_only = false;
  c.job.dump_folder = "third";
  EXPECT_EQ(error_of([&] { run_training(c, {}); }).code(), ExitCode::kUser);
}

TEST_F(Chain, FromOneDatasetToAnotherKeepsTheMomentsAndCountsBothFromTheStart) {
  config::RunConfig first = named("first");
  first.training.dtype = DType::kFloat64;
  train(first);
  config::RunConfig c = after("second");
  c.training.dtype = DType::kFloat64;
  c.data.path = "other/data";
  c.lr_scheduler.warmup_steps = 0;
  c.training.steps = 3;
  c.checkpoint.initial_load_model_only = false;
  const Error error = error_of([&] { run_training(c, {}); });
  EXPECT_THAT(error.message(), HasSubstr("is not the dataset that")) << error.what();
  c.checkpoint.exclude_from_loading = {"dataloader", "train_state"};
  const auto records = train(c);
  ASSERT_EQ(records.size(), 3u);
  EXPECT_EQ(records.front().tokens, 8 * 32);
  const checkpoint::Reader reader = checkpoint::Reader::open(step_of(c, 3));
  EXPECT_EQ(reader.manifest().step, 3);
  EXPECT_EQ(run::data_state_of(reader.manifest(), reader.folder()).next_sample, 24u);
  EXPECT_EQ(reader.manifest().optimizer_start, -12);

  // The optimizer's own count continues: it is in torch's state, and a resume in between changes nothing.
  const auto steps = tensors_of(step_of(c, 3)).at("optimizer.state.norm.weight.step");
  float t = 0;
  std::memcpy(&t, steps.data(), sizeof t);
  EXPECT_EQ(t, 15);
  config::RunConfig parts = c;
  parts.job.dump_folder = "parts";
  for (const int64_t stop : {1, 3}) {
    parts.training.steps = stop;
    train(parts);
  }
  EXPECT_EQ(tensors_of(step_of(parts, 3)), tensors_of(step_of(c, 3)));
}

// Without moments a branch's first update is Adam's first: each weight changes by the learning rate.
TEST_F(Chain, WithoutTheOptimizerItsCountBeginsAnew) {
  train(named("first"));
  config::RunConfig c = after("second");
  c.checkpoint.initial_load_model_only = false;
  c.checkpoint.exclude_from_loading = {"optimizer"};
  c.training.steps = 13;
  c.training.max_norm = 0;
  c.optimizer.weight_decay = 0;
  const auto records = train(c);
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records.front().step, 13);
  EXPECT_EQ(checkpoint::Reader::open(step_of(c, 13)).manifest().optimizer_start, 12);
  const auto before = tensors_of(step_of(named("first"), 12)), after = tensors_of(step_of(c, 13));
  const auto& a = before.at("norm.weight");
  const auto& b = after.at("norm.weight");
  for (size_t i = 0; i < a.size(); i += 4) {
    float x = 0, y = 0;
    std::memcpy(&x, a.data() + i, 4);
    std::memcpy(&y, b.data() + i, 4);
    EXPECT_NEAR(std::abs(y - x), c.optimizer.lr, 1e-3 * c.optimizer.lr) << i / 4;
  }
}

// The data continue after the other run's, and the steps begin again. The metrics say which samples they have.
TEST_F(Chain, ABranchWithoutItsStepsSaysWhichSamplesItHas) {
  config::RunConfig first = named("first");
  train(first);
  config::RunConfig c = after("second");
  c.checkpoint.initial_load_model_only = false;
  c.checkpoint.exclude_from_loading = {"train_state"};
  c.training.steps = 2;
  c.lr_scheduler.warmup_steps = 0;
  const auto records = train(c);
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0].first_sample, 12u * 8);
  EXPECT_EQ(records[1].first_sample, 13u * 8);
  auto events = metrics::read_events(c.run_folder() / "metrics.jsonl");
  ASSERT_EQ(events.size(), 1u);
  EXPECT_GT(std::exchange(events[0].time, 0), 1.7e9) << "seconds since 1970";
  EXPECT_EQ(events[0], (metrics::Event{.name = "resume", .step = 0, .next_sample = 96}));
}

// Loaded moments next to fresh ones: each of torch's parameters has its own count. Adam's first update of a parameter
// changes each of its weights by the learning rate.
TEST_F(Chain, FreshParametersOfABranchHaveACountOfTheirOwn) {
  config::RunConfig first = named("first");
  first.training.max_norm = 0;
  first.optimizer.weight_decay = 0;
  train(first);
  config::RunConfig c = first;
  c.job.dump_folder = "second";
  c.checkpoint.initial_load_path = "first/checkpoints/step-00000012";
  c.checkpoint.initial_load_model_only = false;
  c.checkpoint.fresh = {"norm"};
  c.training.steps = 13;
  train(c);
  const auto count_of = [](const auto& tensors, const std::string& name) {
    float t = 0;
    std::memcpy(&t, tensors.at("optimizer.state." + name + ".step").data(), sizeof t);
    return t;
  };
  const auto after_one = tensors_of(step_of(c, 13));
  EXPECT_EQ(count_of(after_one, "norm.weight"), 1);
  EXPECT_EQ(count_of(after_one, "output.weight"), 13);
  const auto& norm = after_one.at("norm.weight");  // was 1 at the start
  for (size_t i = 0; i < norm.size(); i += 4) {
    float x = 0;
    std::memcpy(&x, norm.data() + i, 4);
    EXPECT_NEAR(std::abs(x - 1), c.optimizer.lr, 1e-3 * c.optimizer.lr) << i / 4;
  }

  c.training.steps = 16;  // a resume keeps the counts, for any number of ranks
  train(c);
  EXPECT_EQ(count_of(tensors_of(step_of(c, 16)), "norm.weight"), 4);
  config::RunConfig whole = c;
  whole.job.dump_folder = "whole";
  train(whole);
  EXPECT_EQ(tensors_of(step_of(whole, 16)), tensors_of(step_of(c, 16)));
}

TEST_F(Chain, WhatTheModelHasNoPlaceForIsNamedOrAnError) {
  train(named("first"));
  config::RunConfig c = after("second");
  c.training.steps = 1;
  c.model.enable_weight_tying = true;
  c.model.n_layers = 1;
  const Error error = error_of([&] { run_training(c, {}); });
  EXPECT_THAT(error.message(), HasSubstr("has weights that the model lacks: ")) << error.what();
  EXPECT_THAT(error.message(), HasSubstr("layers.1.attention.wq.weight"));
  EXPECT_THAT(error.message(), HasSubstr("output.weight"));
  c.checkpoint.drop = {"layers.1", "output"};
  const auto begun = beginning(c), first = tensors_of(step_of(named("first"), 12));
  EXPECT_EQ(begun.at("layers.0.attention.wq.weight"), first.at("layers.0.attention.wq.weight"));
  c.job.dump_folder = "third";
  c.checkpoint.drop = {"layers.1", "output", "layers.7"};
  EXPECT_EQ(error_of([&] { run_training(c, {}); }).message(),
            "checkpoint.drop: \"layers.7\" matches no weight that the model lacks");
  c.checkpoint.drop.pop_back();
  c.checkpoint.fresh = {"layers.0.wq"};
  EXPECT_EQ(error_of([&] { run_training(c, {}); }).message(), "checkpoint.fresh: \"layers.0.wq\" matches no parameter");
}

TEST_F(Chain, WhatIsFrozenKeepsItsBitsAndHasNoMoments) {
  train(named("first"));
  const auto first = tensors_of(step_of(named("first"), 12));
  for (const int64_t ranks : {1, 2}) {
    config::RunConfig c = after(fmt::format("frozen{}", ranks));
    c.parallelism.data_parallel_shard_degree = ranks;
    c.checkpoint.freeze = {"layers.0", "*norm*"};
    for (const int64_t steps : {3, 6}) {  // and continues
      c.training.steps = steps;
      c.lr_scheduler.warmup_steps = 0;
      train(c);
    }
    const auto now = tensors_of(step_of(c, 6));
    for (const auto& [name, bytes] : first) {
      if (name.starts_with("optimizer")) continue;
      const bool frozen = name.starts_with("layers.0") || name.find("norm") != std::string::npos;
      EXPECT_EQ(now.at(name) == bytes, frozen) << name;
      for (const char* moment : {".exp_avg", ".exp_avg_sq", ".step"})
        EXPECT_EQ(now.contains("optimizer.state." + name + moment), !frozen) << name << moment;
    }
  }
  config::RunConfig all = after("all");
  all.checkpoint.freeze = {"*"};
  EXPECT_EQ(error_of([&] { run_training(all, {}); }).message(), "checkpoint.freeze matches every parameter");
}

TEST_F(Chain, NotANumberInTheFirstCheckpointIsFoundBeforeTheFirstStep) {
  config::RunConfig first = named("first");
  train(first);
  for (const int64_t ranks : {1, 2}) {
    config::RunConfig c = named(fmt::format("after{}", ranks));
    c.parallelism.data_parallel_shard_degree = ranks;
    c.checkpoint.initial_load_path = poisoned_checkpoint(first, 12, scratch / fmt::format("poisoned{}", ranks));
    const Error error = error_of([&] { run_training(c, {}); });
    EXPECT_EQ(error.code(), ExitCode::kDamaged);
    EXPECT_THAT(error.message(), HasSubstr("holds NaN or infinity")) << error.what();
    EXPECT_THAT(error.why(), HasSubstr("layers.1.")) << error.why();
    EXPECT_FALSE(path_exists(c.run_folder()));
  }
}

// Weights in another floating-point type, as in published models, are converted: to nearest.
TEST_F(Chain, WeightsInAnotherTypeAreConverted) {
  config::RunConfig first = named("first");
  train(first);
  config::RunConfig narrow = after("narrow");
  narrow.training.dtype = DType::kBFloat16;
  const auto begun = beginning(narrow), before = tensors_of(step_of(first, 12));
  const auto& wide = before.at("output.weight");
  const auto& got = begun.at("output.weight");
  ASSERT_EQ(2 * got.size(), wide.size());
  for (size_t i = 0; i < got.size() / 2; ++i) {
    uint32_t bits = 0;
    uint16_t rounded = 0;
    std::memcpy(&bits, wide.data() + 4 * i, 4);
    std::memcpy(&rounded, got.data() + 2 * i, 2);
    ASSERT_EQ(rounded, (bits + 0x7FFF + (bits >> 16 & 1)) >> 16) << i;  // ties to even
  }
  config::RunConfig back = named("back");  // float32 has the bfloat16 bits and then zeros
  back.checkpoint.initial_load_path = step_of(narrow, 12).string();
  const auto widened = beginning(back).at("output.weight");
  for (size_t i = 0; i < got.size() / 2; ++i) {
    ASSERT_EQ(std::memcmp(widened.data() + 4 * i + 2, got.data() + 2 * i, 2), 0) << i;
    ASSERT_EQ(widened[4 * i], std::byte{0}) << i;
  }
}

TEST_F(Chain, TheSameWindowsMayBeToldByAListOrByEveryNthLayer) {
  config::RunConfig first = named("first");
  first.model.sliding_window = 5;
  first.model.layer_types.assign(static_cast<size_t>(first.model.n_layers), "sliding_attention");
  for (size_t layer = 0; layer < first.model.layer_types.size(); layer += 2)
    first.model.layer_types[layer] = "full_attention";
  train(first);
  config::RunConfig c = after("second");
  c.model.sliding_window = 5;
  c.model.full_attention_interval = 2;
  const Error error = error_of([&] { run_training(c, {}); });
  EXPECT_THAT(error.message(), HasSubstr("another model")) << "full attention in the other layers";
  c.model.first_full_attention_layer = 0;
  EXPECT_EQ(beginning(c).at("output.weight"), tensors_of(step_of(first, 12)).at("output.weight"));
}

// Another model with the same shapes.
TEST_F(Chain, WeightsOfAnotherModelOfTheSameShapesAreRefused) {
  train(named("first"));
  config::RunConfig c = after("second");
  c.model.rope_pairs = config::RopePairs::kHalves;
  c.model.norm_type = config::NormType::kRmsNormNeox;
  c.model.rope_theta = 1e6;
  const Error error = error_of([&] { run_training(c, {}); });
  EXPECT_THAT(error.message(), HasSubstr("another model")) << error.what();
  EXPECT_THAT(error.message(), HasSubstr("model.rope_pairs: \"interleaved\" -> \"halves\"")) << error.what();
  EXPECT_THAT(error.message(), HasSubstr("model.norm_type")) << error.what();
  EXPECT_THAT(error.message(), Not(HasSubstr("rope_theta"))) << "which a training may change on the way";
  c = after("third");
  c.model.n_heads /= 2;
  c.model.n_kv_heads = 1;
  EXPECT_THAT(error_of([&] { run_training(c, {}); }).message(), HasSubstr("model.n_heads"));
}

// A branch that does not load the optimizer may freeze other parameters.
TEST_F(Chain, ABranchWithoutTheOptimizerMayFreeze) {
  train(named("first"));
  config::RunConfig c = after("branch");
  c.checkpoint.initial_load_model_only = false;
  c.checkpoint.freeze = {"layers.0"};
  c.training.steps += 2;
  EXPECT_THAT(error_of([&] { run_training(c, {}); }).fix(), HasSubstr("initial_load_model_only = true"));
  c.checkpoint.exclude_from_loading = {"optimizer"};
  train(c);
  const auto before = tensors_of(step_of(named("first"), 12)), now = tensors_of(step_of(c, 14));
  EXPECT_EQ(before.at("layers.0.attention.wq.weight"), now.at("layers.0.attention.wq.weight"));
  EXPECT_NE(before.at("layers.1.attention.wq.weight"), now.at("layers.1.attention.wq.weight"));
}

TEST_F(Chain, AnInitialCheckpointThatDoesNotFitLeavesNoRunFolder) {
  config::RunConfig first = named("first");
  train(first);
  config::RunConfig c = named("after");
  const auto refused = [&] { return error_of([&] { run_training(c, {}); }).message(); };
  c.checkpoint.initial_load_path = "nowhere";
  EXPECT_THAT(refused(), HasSubstr("there is no folder")) << refused();
  EXPECT_FALSE(path_exists(c.run_folder()));
  c.checkpoint.initial_load_path = step_of(first, 12).string();
  c.model.dim *= 2;
  EXPECT_THAT(refused(), HasSubstr("does not fit the model")) << refused();
  // Each layer has nine weights that do not fit, so the list is cut.
  EXPECT_EQ(std::ranges::count(refused(), '\n'), 13) << refused();
  EXPECT_THAT(refused(), HasSubstr("\n    and 9 more")) << refused();
  EXPECT_FALSE(path_exists(c.run_folder()));
  // An existing folder is kept.
  make_folders(c.run_folder());
  EXPECT_THAT(refused(), HasSubstr("does not fit the model"));
  EXPECT_TRUE(path_exists(c.run_folder()));
}

}  // namespace
}  // namespace hearth::train
