// SPDX-License-Identifier: Apache-2.0
// Texts that a training makes from validation.generate, next to those that `hearth generate` makes from its
// checkpoints.
#include "train/sample_texts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/text.h"
#include "infer/fill.h"
#include "infer/generate.h"
#include "infer/generate_array.h"
#include "train/tiny_run.h"

namespace hearth::infer {
namespace {

using testing::HasSubstr;
using Json = nlohmann::json;

struct SampleTexts : train::TinyData {
  config::RunConfig config(const std::string& name) const {
    config::RunConfig c = train::tiny_config(scratch);
    c.job.dump_folder = name;
    c.model.vocab_size = 259;  // a row for the mask, and parts of two sizes for two ranks
    c.validation.freq = 4;
    c.validation.steps = 1;
    return c;
  }
  config::RunConfig masked(const std::string& name) const {
    config::RunConfig c = config(name);
    c.objective.kind = config::ObjectiveKind::kMaskedLm;
    c.objective.mask_id = 258;
    return c;
  }
};

std::vector<Json> samples_of(const config::RunConfig& c) {
  std::vector<Json> samples;
  for (const std::string& line : split_lines(read_file(c.run_folder() / "metrics.jsonl"))) {
    Json json = Json::parse(line);
    if (json.value("event", "") == "sample") samples.push_back(std::move(json));
  }
  return samples;
}

// What does not depend on the time.
std::vector<std::string> facts_of(const config::RunConfig& c) {
  std::vector<std::string> facts;
  for (Json sample : samples_of(c)) {
    EXPECT_GT(sample.at("time").get<double>(), 0);
    sample.erase("time");
    facts.push_back(sample.dump());
  }
  return facts;
}

// Seven prompts of many lengths: more than a micro-batch has sequences, and texts longer than the window of 32.
std::vector<std::string> prompts() {
  return {"ka", "", train::tiny_text(3, 40).substr(0, 31), "lo mi ren", train::tiny_text(3, 40).substr(5, 90),
          "b",  "c"};
}

TEST_F(SampleTexts, TheyAreThoseOfTheGenerateCommandFromTheSameStep) {
  config::RunConfig c = config("run");
  c.validation.generate = prompts();
  c.validation.generate_tokens = 40;
  train::train(c);
  const std::vector<Json> samples = samples_of(c);
  ASSERT_EQ(samples.size(), 4 * prompts().size());  // steps 0, 4, 8, 12
  std::set<uint64_t> seeds;
  for (size_t i = 0; i < samples.size(); ++i) {
    const Json& sample = samples[i];
    EXPECT_EQ(sample.at("step"), 4 * static_cast<int64_t>(i / prompts().size()));
    EXPECT_EQ(sample.at("prompt"), prompts()[i % prompts().size()]);
    seeds.insert(sample.at("seed").get<uint64_t>());
    if (sample.at("step") == 0) continue;
    const auto model = load_model(train::step_of(c, sample.at("step")));
    std::string text;
    const GenerationCounts counts = generate(
        *model,
        {.prompt = sample.at("prompt"), .max_tokens = 40, .sampling = {}, .seed = sample.at("seed").get<uint64_t>()},
        [&](std::string_view part) { text += part; });
    EXPECT_EQ(sample.at("prompt").get<std::string>() + sample.at("text").get<std::string>(), text) << sample;
    EXPECT_EQ(sample.at("tokens"), counts.generated_tokens);
    EXPECT_EQ(sample.at("ended"), counts.ended);
  }
  EXPECT_EQ(seeds.size(), samples.size());
}

TEST_F(SampleTexts, ATrainingHasTheSameBitsWithAndWithoutThem) {
  const config::RunConfig without = config("without");
  config::RunConfig with = config("with");
  with.validation.generate = prompts();
  train::expect_same_training(train::train(with), train::train(without));
  EXPECT_EQ(train::tensors_of(train::step_of(with, 12)), train::tensors_of(train::step_of(without, 12)));
}

TEST_F(SampleTexts, AfterAStopTheyAreThoseOfAnUninterruptedRun) {
  config::RunConfig whole = config("whole"), parts = config("parts");
  whole.validation.generate = parts.validation.generate = prompts();
  train::train(whole);
  for (const int64_t steps : {5, 12}) {
    parts.training.steps = steps;
    train::train(parts);
  }
  EXPECT_EQ(facts_of(parts), facts_of(whole));
}

// In float64 no choice is near enough to another for the order of sums to matter.
TEST_F(SampleTexts, EveryLayoutOfRanksMakesTheSame) {
  using enum config::PipelineSchedule;
  const std::vector<config::Parallelism> layouts = {
      {.data_parallel_shard_degree = 1},
      {.data_parallel_shard_degree = 4, .zero_stage = 2},
      {.data_parallel_replicate_degree = 2, .data_parallel_shard_degree = 2, .zero_stage = 3},
      {.tensor_parallel_degree = 2},
      {.data_parallel_shard_degree = 2, .zero_stage = 3, .context_parallel_degree = 2},
      {.context_parallel_degree = 8},
      {.context_parallel_degree = 2, .tensor_parallel_degree = 2},
      {.pipeline_parallel_degree = 2, .pipeline_parallel_schedule = kInterleaved1F1B},
      {.pipeline_parallel_degree = 2, .pipeline_parallel_schedule = kInterleavedZeroBubble},
      {.data_parallel_shard_degree = 2, .zero_stage = 3, .pipeline_parallel_degree = 4},
      {.data_parallel_shard_degree = 2, .tensor_parallel_degree = 2, .pipeline_parallel_degree = 2}};
  for (const bool is_masked : {false, true}) {
    std::vector<std::string> expected;
    for (size_t i = 0; i < layouts.size(); ++i) {
      const std::string name = fmt::format("{}-{}", is_masked ? "masked" : "causal", i);
      SCOPED_TRACE(name);
      config::RunConfig c = is_masked ? masked(name) : config(name);
      c.model.n_layers = 4;
      c.model.enable_weight_tying = is_masked;
      c.training.dtype = DType::kFloat64;
      c.training.steps = 4;
      c.checkpoint.interval = 0;
      c.parallelism = layouts[i];
      c.validation.generate = is_masked ? std::vector<std::string>{"ka[MASK]lo", "[MASK][MASK] mi [MASK]"} : prompts();
      c.validation.generate_tokens = 12;
      train::train(c);
      const std::vector<std::string> facts = facts_of(c);
      EXPECT_EQ(facts.size(), 2 * c.validation.generate.size());
      if (i == 0) expected = facts;
      EXPECT_EQ(facts, expected);
    }
  }
}

TEST_F(SampleTexts, AModelOfHiddenTokensFillsMasksIn) {
  config::RunConfig c = masked("run");
  c.validation.generate = {"ka[MASK] lo[MASK][MASK]", "a[MASK]"};
  c.validation.generate_temperature = 0.7;
  train::train(c);
  const std::vector<Json> samples = samples_of(c);
  ASSERT_EQ(samples.size(), 8u);
  for (const Json& sample : samples) {
    EXPECT_EQ(sample.at("tokens"), sample.at("prompt") == "a[MASK]" ? 1 : 3);
    if (sample.at("step") == 0) continue;
    const auto model = load_model(train::step_of(c, sample.at("step")));
    EXPECT_EQ(sample.at("text"), Json(fill_masks(*model, {.text = sample.at("prompt"),
                                                          .sampling = {.temperature = 0.7},
                                                          .seed = sample.at("seed").get<uint64_t>()})
                                          .text))
        << sample;
  }
}

TEST_F(SampleTexts, APromptThatTheModelCannotReadIsRefusedBeforeTheTraining) {
  config::RunConfig c = masked("run");
  c.validation.generate = {"ka[MASK]", "without"};
  const Error none = test::error_of([&] { train::train(c); });
  EXPECT_THAT(none.what(), HasSubstr("the prompt \"without\" of validation.generate has no mask"));
  EXPECT_THAT(none.what(), HasSubstr("write [MASK] for each token to be filled in"));
  EXPECT_EQ(none.code(), ExitCode::kUser);
  c.validation.generate = {std::string(40, 'a') + "[MASK]"};
  EXPECT_THAT(test::error_of([&] { train::train(c); }).what(),
              HasSubstr("a prompt of validation.generate has 43 tokens"));
  EXPECT_FALSE(path_exists(c.run_folder()));

  c = config("run");
  c.validation.generate = {"ka"};
  c.validation.generate_context_bins = 4;
  EXPECT_THAT(test::error_of([&] { train::train(c); }).what(),
              HasSubstr("validation.generate_context_bins is for recordings"));
}

// Recordings of many neurons, of which the data have the first eight: columns of nine tokens in windows of 32.
struct SampleRasters : SampleTexts {
  SampleRasters() { train::build_tiny_spikes(scratch, "spikes", 8); }
  config::RunConfig of_spikes(const std::string& name) const {
    config::RunConfig c = config(name);
    c.data.path = "spikes";
    c.model.vocab_size = 0;
    c.validation.generate = {"spikes-rec/row-000000.npy", "spikes-rec/row-000002.npy"};
    c.validation.generate_tokens = 40;  // five columns begin within them
    c.validation.generate_context_bins = 3;
    return c;
  }
};

TEST_F(SampleRasters, TheyAreThoseOfTheGenerateCommandFromTheSameStepNextToTheRecording) {
  const config::RunConfig c = of_spikes("run");
  train::train(c);
  const std::vector<Json> samples = samples_of(c);
  ASSERT_EQ(samples.size(), 8u);  // steps 0, 4, 8, 12
  for (const Json& sample : samples) {
    EXPECT_FALSE(sample.contains("text"));
    EXPECT_EQ(sample.at("tokens"), 45);
    const Path file = sample.at("prompt").get<std::string>();
    EXPECT_TRUE(file.is_absolute());
    const auto row = file.filename() == "row-000000.npy" ? 0 : 2;
    const recordings::SpikeArray real = recordings::synthetic_spikes(1, row);
    const auto bins = [&](int64_t first, int64_t count) {
      Json list = Json::array();
      for (int64_t bin = first; bin < first + count; ++bin) {
        const auto begin = real.counts.begin() + bin * real.shape.neurons;
        list.push_back(std::vector<int>(begin, begin + 8));
      }
      return list;
    };
    EXPECT_EQ(sample.at("before"), bins(0, 3));
    EXPECT_EQ(sample.at("real"), bins(3, 5));
    if (sample.at("step") == 0) continue;
    const auto model = load_model(train::step_of(c, sample.at("step")));
    Json made = Json::array();
    generate_array(*model, {read_prompt_array(*model, file, 3).context, 40, {}, sample.at("seed").get<uint64_t>()},
                   [&](std::span<const uint8_t> bin) { made.push_back(std::vector<int>(bin.begin(), bin.end())); });
    EXPECT_EQ(sample.at("bins"), made) << sample;
  }
}

TEST_F(SampleRasters, EveryLayoutOfRanksMakesTheSame) {
  const std::vector<config::Parallelism> layouts = {{.data_parallel_shard_degree = 1},
                                                    {.data_parallel_shard_degree = 2, .zero_stage = 3},
                                                    {.tensor_parallel_degree = 2},
                                                    {.pipeline_parallel_degree = 2}};
  std::vector<std::string> expected;
  for (size_t i = 0; i < layouts.size(); ++i) {
    SCOPED_TRACE(i);
    config::RunConfig c = of_spikes(fmt::format("run-{}", i));
    c.model.enable_weight_tying = true;
    c.training.dtype = DType::kFloat64;
    c.training.steps = 4;
    c.checkpoint.interval = 0;
    c.parallelism = layouts[i];
    train::train(c);
    const std::vector<std::string> facts = facts_of(c);
    EXPECT_EQ(facts.size(), 4u);
    if (i == 0) expected = facts;
    EXPECT_EQ(facts, expected);
  }
}

TEST_F(SampleRasters, TheLogSaysHowManySpikesThereAre) {
  config::RunConfig c = of_spikes("run");
  c.training.steps = 4;
  c.validation.generate.pop_back();
  train::train(c);
  const Json sample = samples_of(c).back();
  const auto mean = [&](const char* name) {
    double spikes = 0;
    for (const Json& bin : sample.at(name))
      for (const Json& count : bin) spikes += count.get<double>();
    return spikes / 40;
  };
  std::string log;
  for (const std::string& name : list_folder(c.run_folder() / "logs")) log += read_file(c.run_folder() / "logs" / name);
  EXPECT_THAT(log, HasSubstr(fmt::format("-> 5 time bins of 8 neurons, {:.3f} spikes a bin and neuron ({:.3f} in the "
                                         "recording)",
                                         mean("bins"), mean("real"))));
}

TEST_F(SampleRasters, ARecordingThatTheModelCannotReadIsRefusedBeforeTheTraining) {
  config::RunConfig c = of_spikes("run");
  c.validation.generate = {"ka", "spikes-rec/row-000001.npy"};
  c.validation.generate_context_bins = 5000;
  const Error error = test::error_of([&] { train::train(c); });
  EXPECT_EQ(error.code(), ExitCode::kUser);
  EXPECT_THAT(error.what(), HasSubstr("validation.generate: there is no file \"" + (scratch / "ka").string() + "\""));
  EXPECT_THAT(error.what(), HasSubstr("validation.generate_context_bins 5000: "));
  EXPECT_FALSE(path_exists(c.run_folder()));
}

}  // namespace
}  // namespace hearth::infer
