// SPDX-License-Identifier: Apache-2.0
// Steps with NaN or infinity, and spikes: the judgement, the run's reaction, and that a resume changes nothing.
#include "train/guard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "comm/group.h"
#include "run/run.h"
#include "run/saver.h"
#include "tiny_run.h"

namespace hearth::train {
namespace {

using testing::HasSubstr;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

using config::Policy;

config::Numerics numerics(Policy nan_policy, Policy spike_policy) {
  config::Numerics n;
  n.nan_policy = nan_policy;
  n.spike_policy = spike_policy;
  n.spike_window = 8;
  n.spike_deviations = 3;
  return n;
}

// The result of a step with this loss and norm, after the steps that `guard` has seen.
StepResult result_of(const Guard& guard, double loss, double grad_norm) {
  ops::StepDecision device(guard.rules(), at::kCPU);
  device.begin_from(guard.state(0));
  device.decide(ops::from_float64(std::vector<double>{loss, 0}), ops::from_float64(std::vector{grad_norm * grad_norm}),
                0, 0);
  const kernels::Decision d = ops::read_decision(device.decision());
  return {.loss = loss,
          .grad_norm = grad_norm,
          .loss_deviations = d.loss_deviations,
          .norm_deviations = d.norm_deviations,
          .applied = d.apply != 0};
}

Judgement judge(const Guard& guard, double loss, double grad_norm) {
  const StepResult step = result_of(guard, loss, grad_norm);
  const Judgement judgement = guard.judge(step);
  EXPECT_EQ(judgement.verdict == Verdict::kApply, step.applied) << "the device decides alike";
  return judgement;
}

TEST(Guard, WhatIsNoNumberIsLeftToThePolicy) {
  for (const auto& [policy, verdict] : {std::pair{Policy::kStop, Verdict::kStop},
                                        {Policy::kSkip, Verdict::kSkip},
                                        {Policy::kRewind, Verdict::kRewind}}) {
    const Guard guard(numerics(policy, Policy::kOff), {});
    EXPECT_EQ(judge(guard, 1, 1).verdict, Verdict::kApply);
    for (const auto& [loss, norm] : {std::pair{kNan, 1.0}, {1.0, kNan}, {1.0, HUGE_VAL}, {-HUGE_VAL, 1.0}}) {
      EXPECT_EQ(judge(guard, loss, norm).verdict, verdict);
      EXPECT_EQ(judge(guard, loss, norm).kind, "nan");
    }
    EXPECT_EQ(judge(guard, 1e30, 1e30).verdict, Verdict::kApply) << "large is no spike where nobody watches";
  }
}

// Eight values 1, 2, 1, 2, ...: mean 1.5, standard deviation 0.5; three deviations above is 3.
TEST(Guard, ASpikeLiesFarAboveTheMeanOfTheWindowInItsStandardDeviations) {
  Guard guard(numerics(Policy::kStop, Policy::kSkip), {});
  for (int i = 0; i < 3; ++i) guard.applied({.loss = 1.0 + i % 2, .grad_norm = 5});
  EXPECT_EQ(judge(guard, 100, 5).verdict, Verdict::kApply) << "half of the window is not there yet";
  guard.applied({.loss = 100, .grad_norm = 5});  // it leaves the window later
  for (int i = 0; i < 8; ++i) guard.applied({.loss = 1.0 + i % 2, .grad_norm = 5.0 + i % 2});
  EXPECT_EQ(guard.health().losses.size(), 8u);
  EXPECT_EQ(judge(guard, 2.99, 5).verdict, Verdict::kApply);
  EXPECT_EQ(judge(guard, 3.01, 5).verdict, Verdict::kSkip);
  EXPECT_EQ(judge(guard, -50, 0).verdict, Verdict::kApply) << "below is no spike";
  EXPECT_EQ(judge(guard, 1, 7.01).verdict, Verdict::kSkip) << "of the norm";
  EXPECT_EQ(judge(guard, 1, 7.01).kind, "spike");
  EXPECT_THAT(judge(guard, 1, 7.01).reason, HasSubstr("the gradient's norm is 7.01, 3.0 standard deviations"))
      << judge(guard, 1, 7.01).reason;
  guard.skipped();
  EXPECT_EQ(guard.health().losses.back(), 2) << "what was skipped does not enter";
}

TEST(Guard, ALimitThatIsReachedStops) {
  config::Numerics n = numerics(Policy::kSkip, Policy::kOff);
  n.skip_limit = 2;
  Guard guard(n, {});
  guard.skipped();
  guard.applied({.loss = 1, .grad_norm = 1});  // no longer in a row
  guard.skipped();
  EXPECT_EQ(judge(guard, kNan, 1).verdict, Verdict::kSkip);
  guard.skipped();
  EXPECT_EQ(judge(guard, kNan, 1).verdict, Verdict::kStop);
  EXPECT_THAT(judge(guard, kNan, 1).reason, HasSubstr("numerics.skip_limit = 2 updates in a row were left out"));
  EXPECT_EQ(guard.health().skipped, 3);

  n = numerics(Policy::kRewind, Policy::kOff);
  n.rewind_limit = 1;
  Guard back(n, {});
  EXPECT_EQ(judge(back, kNan, 1).verdict, Verdict::kRewind);
  back.rewound({});  // the checkpoint does not count this rewind
  EXPECT_EQ(judge(back, kNan, 1).verdict, Verdict::kStop);
}

// Runs on text with a '#' now and then, whose embedding is infinite: the loss of a step that reads one is NaN, all
// other steps are normal.
struct GuardPolicy : ::testing::Test {
  GuardPolicy() {
    make_folders(scratch / "text");
    for (uint64_t i = 0; i < 8; ++i) {
      std::string text = tiny_text(i, 400);
      for (size_t at = 200; at < text.size(); at += 400) text[at] = '#';
      write_file_atomic(scratch / "text" / fmt::format("{}.txt", i), text);
    }
    data::BuildOptions options;
    options.out = scratch / "data";
    options.paths = {scratch / "text"};
    options.rules.validation = 0.3;
    data::BuildProgress progress;
    data::build_dataset(options, progress);
  }

  // A run in FOLDER with these weights at step 0.
  config::RunConfig poisoned(const std::string& folder, int64_t ranks = 1) {
    config::RunConfig c = tiny_config(scratch);
    c.job.dump_folder = folder;
    c.parallelism.data_parallel_shard_degree = ranks;
    c.training.steps = 24;
    c.training.global_batch_size = 2;
    c.training.local_batch_size = 1;
    c.checkpoint.interval = 3;
    c.numerics.rewind_limit = 100;
    run::Run run = run::open_run(c);
    const auto group = comm::single();
    parallel::ShardedWeights weights(run.plan, run.precision, *group, parallel::ShardedWeights::Mode::kTraining);
    run::initialize_weights(weights, 0);
    const plan::Parameter& embedding = run.plan.parameters.front();
    weights.master(0).data_ptr<float>()[embedding.offset + '#' * embedding.shape[1]] = HUGE_VALF;
    run::save_state(weights, run.folder.checkpoints(), run.manifest({}, {}));
    return c;
  }
  checkpoint::Manifest manifest_of(const config::RunConfig& c, int64_t step) {
    return checkpoint::Reader::open(step_of(c, step)).manifest();
  }

  test::ScratchFolder scratch;
};

int64_t skipped(const std::vector<metrics::StepRecord>& records) {
  return std::count_if(records.begin(), records.end(), [](const metrics::StepRecord& r) { return !r.skipped.empty(); });
}

// All rewinds in the metrics file, undone or not.
int64_t rewinds_told(const config::RunConfig& c) {
  const std::string log = read_file(c.run_folder() / "metrics.jsonl");
  int64_t events = 0;
  for (size_t at = log.find("\"rewind\""); at != std::string::npos; at = log.find("\"rewind\"", at + 1)) ++events;
  return events;
}

TEST_F(GuardPolicy, StopEndsTheRunAtTheFirst) {
  config::RunConfig c = poisoned("stop");
  const Error error = error_of([&] { train(c); });
  EXPECT_EQ(error.code(), ExitCode::kDamaged);
  EXPECT_THAT(error.message(), HasSubstr("the loss is nan")) << error.message();
}

TEST_F(GuardPolicy, SkipLeavesOutTheUpdatesOfSuchStepsOnAnyNumberOfRanks) {
  config::RunConfig c = poisoned("skip");
  c.numerics.nan_policy = config::Policy::kSkip;
  const auto records = train(c);
  ASSERT_EQ(records.size(), 24u);
  const int64_t count = skipped(records);
  EXPECT_GE(count, 2);
  EXPECT_LE(count, 12);
  for (const metrics::StepRecord& r : records) EXPECT_EQ(r.loss.has_value(), r.skipped.empty()) << "step " << r.step;
  EXPECT_EQ(health_at(step_of(c, 24)).skipped, count);
  EXPECT_EQ(manifest_of(c, 24).optimizer_start, count) << "Adam counts the updates that were made";
  EXPECT_LT(*records.back().loss, *records.front().loss);

  config::RunConfig two = poisoned("skip-2", 2);
  two.numerics.nan_policy = config::Policy::kSkip;
  const auto others = train(two);
  ASSERT_EQ(others.size(), records.size());
  for (size_t i = 0; i < records.size(); ++i) {
    EXPECT_EQ(others[i].skipped, records[i].skipped) << "step " << i + 1;
    if (!records[i].loss) continue;
    EXPECT_NEAR(*others[i].loss / *records[i].loss, 1, 1e-4) << "step " << i + 1;
  }
}

TEST_F(GuardPolicy, ARunWithSkippedStepsIsResumedToTheBit) {
  for (const char* kind : {"nan", "spike"}) {
    config::RunConfig c = poisoned(fmt::format("whole-{}", kind));
    c.numerics.nan_policy = config::Policy::kSkip;
    if (std::string(kind) == "spike") {
      c.numerics.spike_policy = config::Policy::kSkip;
      c.numerics.spike_window = 4;
      c.numerics.spike_deviations = 0.5;
    }
    const auto whole = train(c);
    EXPECT_TRUE(std::any_of(whole.begin(), whole.end(), [&](const auto& r) { return r.skipped == kind; })) << kind;
    config::RunConfig parts = poisoned(fmt::format("parts-{}", kind));
    parts.numerics = c.numerics;
    for (const int64_t steps : {7, 13, 24}) {
      parts.training.steps = steps;
      train(parts);
    }
    expect_same_training(metrics::read_metrics(parts.run_folder() / "metrics.jsonl"), whole);
    EXPECT_EQ(tensors_of(step_of(parts, 24)), tensors_of(step_of(c, 24)));
    EXPECT_EQ(health_at(step_of(parts, 24)), health_at(step_of(c, 24)));
  }
}

TEST_F(GuardPolicy, RewindGoesBackToTheLastCheckpointAndOnBehindTheData) {
  for (const int64_t ranks : {1, 2}) {
    config::RunConfig c = poisoned(fmt::format("rewind-{}", ranks), ranks);
    c.numerics.nan_policy = config::Policy::kRewind;
    const auto records = train(c);
    ASSERT_EQ(records.size(), 24u);
    for (size_t i = 0; i < records.size(); ++i) EXPECT_EQ(records[i].step, static_cast<int64_t>(i + 1));
    for (const metrics::StepRecord& r : records) EXPECT_TRUE(r.loss && r.skipped.empty());
    const int64_t rewinds = health_at(step_of(c, 24)).rewinds;
    const uint64_t next_sample = data_state_at(step_of(c, 24)).next_sample;
    EXPECT_GE(rewinds, 1);
    EXPECT_GT(next_sample, 2u * 24) << "samples were left out";
    EXPECT_EQ(manifest_of(c, 24).tokens_seen, 24 * 2 * 32) << "and not counted";
    uint64_t next = 0;
    for (const metrics::StepRecord& r : records) {
      EXPECT_GE(r.first_sample, next) << "step " << r.step;
      EXPECT_EQ(r.samples, 2);
      next = r.first_sample + 2;
    }
    EXPECT_EQ(next, next_sample);
    EXPECT_EQ(rewinds_told(c), rewinds);
  }
}

TEST_F(GuardPolicy, RewindGivesUpAtItsLimit) {
  config::RunConfig c = poisoned("limit");
  c.numerics.nan_policy = config::Policy::kRewind;
  c.numerics.rewind_limit = 1;
  const Error error = error_of([&] { train(c); });
  EXPECT_EQ(error.code(), ExitCode::kDamaged);
  EXPECT_THAT(error.message(), HasSubstr("the run has gone back numerics.rewind_limit = 1 times")) << error.message();
}

// With or without a checkpoint in between, a later start knows where the run had gone back to, after which data, and
// how often.
TEST_F(GuardPolicy, ARewindIsRememberedThoughNoCheckpointFollowed) {
  config::RunConfig whole = poisoned("whole");
  whole.numerics.nan_policy = config::Policy::kRewind;
  whole.checkpoint.interval = 8;  // two rewinds to one checkpoint
  const auto records = train(whole);
  const int64_t rewinds = health_at(step_of(whole, 24)).rewinds;
  ASSERT_GE(rewinds, 2);
  config::RunConfig parts = poisoned("parts");
  parts.numerics.nan_policy = config::Policy::kRewind;
  parts.checkpoint.interval = 8;
  for (int64_t limit = 1; limit < rewinds; ++limit) {
    parts.numerics.rewind_limit = limit;
    for (int start = 0; start < 2; ++start) {  // the second stops at the same point
      const Error error = error_of([&] { train(parts); });
      EXPECT_THAT(error.message(), HasSubstr(fmt::format("rewind_limit = {} times", limit))) << error.message();
    }
  }
  parts.numerics.rewind_limit = rewinds;
  expect_same_training(train(parts), records);
  EXPECT_EQ(tensors_of(step_of(parts, 24)), tensors_of(step_of(whole, 24)));
  EXPECT_EQ(data_state_at(step_of(parts, 24)).next_sample, data_state_at(step_of(whole, 24)).next_sample);
  EXPECT_EQ(health_at(step_of(parts, 24)).rewinds, rewinds);
  EXPECT_EQ(rewinds_told(parts), rewinds) << "none was made twice";
}

}  // namespace
}  // namespace hearth::train
