// SPDX-License-Identifier: Apache-2.0
// Samples, scores, the plan and the mixture of a run folder.
#include "report/run_extras.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include "data/order/data_state.h"
#include "data/order/mixture.h"
#include "support/environment.h"

namespace hearth::report {
namespace {

using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::Pair;

// A sample with the prompt "Once".
auto sample(int64_t step, const std::string& text) {
  using metrics::SampleText;
  return testing::AllOf(Field(&SampleText::step, step), Field(&SampleText::prompt, "Once"),
                        Field(&SampleText::text, text));
}

struct RunExtras : ::testing::Test {
  Path written(const std::string& name, const std::string& text) {
    write_file_atomic(folder / name, text);
    return folder / name;
  }
  test::ScratchFolder folder;
  PageRun run;
};

TEST_F(RunExtras, SamplesThatARewindUndidAreLeftOut) {
  run.history = metrics::read_history(written("metrics.jsonl", R"(
{"event": "sample", "step": 10, "prompt": "Once", "text": " upon \"a\" time", "tokens": 4}
{"event": "sample", "step": 20, "prompt": "Once", "text": " more"}
{"event": "rewind", "step": 15, "reason": "nan"}
{"event": "sample", "step": 20, "prompt": "Once", "text": " again"}
{"event": "sample", "step": 20, "prompt": 7}
{"event": "sample", "step": 30, "prompt": "On)"));
  thin_out(run.history.samples);
  EXPECT_THAT(run.history.samples, ElementsAre(sample(10, " upon \"a\" time"), sample(20, " again")));
}

// A training that was killed before its first checkpoint validates and writes step 0 again.
TEST_F(RunExtras, ASampleOfAStepThatWasDoneAgainStandsOnce) {
  const Path file = folder / "metrics.jsonl";
  for (const char* text : {" first", " second"}) {
    metrics::JsonlWriter writer(file);
    metrics::StepRecord validated;
    validated.validation_loss = 3;
    writer.append(metrics::Event{.name = "resume", .step = 0});
    writer.append(validated);
    writer.append(metrics::SampleText{.step = 0, .prompt = "Once", .text = text});
  }
  run.history = metrics::read_history(file);
  thin_out(run.history.samples);
  EXPECT_THAT(run.history.samples, ElementsAre(sample(0, " second")));
}

TEST_F(RunExtras, ManySamplesAreThinnedOutAndTheLastStay) {
  std::string text;
  for (int64_t step = 1; step <= 1000; ++step)
    for (const char* prompt : {"a", "b"})
      text +=
          fmt::format("{{\"event\": \"sample\", \"step\": {}, \"prompt\": \"{}\", \"text\": \"\"}}\n", step, prompt);
  run.history = metrics::read_history(written("metrics.jsonl", text));
  thin_out(run.history.samples);
  EXPECT_EQ(run.history.samples.size(), 400u) << "every fifth step";
  EXPECT_EQ(run.history.samples.back().step, 1000);
  EXPECT_EQ(run.history.samples.front().step, 5);
}

TEST_F(RunExtras, OfManyRastersFewerStay) {
  std::string text;
  for (int64_t step = 1; step <= 300; ++step)
    text += fmt::format(
        R"({{"event": "sample", "step": {}, "prompt": "a.npy", "bins": [[0, 255]], "before": [], "real": [[1, 2]]}})"
        "\n",
        step);
  run.history = metrics::read_history(written("metrics.jsonl", text));
  thin_out(run.history.samples);
  EXPECT_EQ(run.history.samples.size(), 60u) << "every fifth step";
  EXPECT_EQ(run.history.samples.back().step, 300);
  EXPECT_EQ(run.history.samples.back().bins, (metrics::SampleBins{.made = {{0, 255}}, .before = {}, .real = {{1, 2}}}));
}

TEST_F(RunExtras, TheLastScoreOfAStepCounts) {
  add_scores(run, written("scores.jsonl", R"({"step": 200, "name": "arc", "value": 0.5}
{"step": 100, "name": "arc", "value": 0.25}
{"step": 100, "name": "boolq", "value": 1}
{"step": 200, "name": "arc", "value": 0.75}
{"step": 300, "name": "arc"}
{"step": 400, "na)"));
  ASSERT_EQ(run.scores.size(), 2u);
  EXPECT_THAT(run.scores.at("arc"), ElementsAre(Pair(100, 0.25), Pair(200, 0.75)));
  EXPECT_THAT(run.scores.at("boolq"), ElementsAre(Pair(100, 1)));
  EXPECT_THAT(run.notes, ElementsAre("scores.jsonl has 1 damaged line, left out here"));
}

TEST_F(RunExtras, ADamagedPlanIsANote) {
  add_plan(run, written("plan.json", R"({"tokens_per_second": null, "memory_bytes": 64, "before_bytes": 8})"));
  EXPECT_FALSE(run.plan.tokens_per_second.has_value());
  EXPECT_EQ(run.plan.memory_bytes, 64);
  EXPECT_EQ(run.plan.before_bytes, 8);
  for (const char* damaged : {"{", R"({"memory_bytes": 1e300, "before_bytes": 8})",
                              R"({"memory_bytes": 9223372036854775807, "before_bytes": 8})"}) {
    run.notes.clear();
    add_plan(run, written("plan.json", damaged));
    EXPECT_FALSE(run.plan.memory_bytes.has_value());
    EXPECT_THAT(run.notes, ElementsAre(HasSubstr("plan.json is damaged"))) << damaged;
  }
}

// Three sources; the second half of the run gives all to the last one.
TEST_F(RunExtras, TheMixtureIsThatOfTheSequencesOfTheRecordedSteps) {
  config::RunConfig config;
  config.training.seq_len = 10;
  config.training.global_batch_size = config.training.local_batch_size = 4;
  config.data.source.resize(3);
  const double weights[] = {3, 1, 0};
  for (size_t i = 0; i < 3; ++i)
    config.data.source[i] = {.path = std::string(1, static_cast<char>('a' + i)), .weight = weights[i]};
  config.data.segment = {{.from_tokens = 4000, .weights = {0, 0, 1}}};
  run.planned_steps = 200;  // of 40 tokens
  for (int64_t step = 1; step <= 150; ++step) {
    metrics::StepRecord r;
    r.step = step;
    r.samples = 4;
    r.first_sample = static_cast<uint64_t>(4 * (step - 1));
    run.history.records.push_back(r);
  }
  checkpoint::Manifest manifest;
  data::DataState state;
  state.sources = {"x", "y", "z"};
  state.segments = {{0, {3, 1, 0}}, {400, {0, 0, 1}}};
  state.next_sample = 600;
  manifest.states[data::kDataState] = data::format_data_state(state);
  add_mixture(run, config, manifest);
  EXPECT_THAT(run.notes, ElementsAre());
  ASSERT_EQ(run.mixture.size(), 3u);
  const double planned[] = {3 / 8.0, 1 / 8.0, 1 / 2.0}, sequences[] = {300, 100, 200};
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_DOUBLE_EQ(run.mixture[i].planned.value(), planned[i]);
    EXPECT_NEAR(run.mixture[i].sequences, sequences[i], 1) << "within a sequence of its share";
    EXPECT_NEAR(run.mixture[i].realised.value(), sequences[i] / 600, 1 / 600.0);
  }
}

}  // namespace
}  // namespace hearth::report
