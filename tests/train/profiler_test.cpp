// SPDX-License-Identifier: Apache-2.0
// Traces and memory snapshots of real trainings, as Python reads them.
#include <gmock/gmock.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "plan/memory.h"
#include "run/run.h"
#include "support/python.h"
#include "train/tiny_run.h"

namespace hearth::train {
namespace {

using nlohmann::json;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using Profiles = TinyData;

// A trace of steps 5 and 6, and one of steps 11 and 12.
config::RunConfig traced_config(const Path& folder) {
  config::RunConfig c = tiny_config(folder);
  c.profiling.enable_profiling = true;
  c.profiling.profile_freq = 6;
  c.profiling.profiler_active = 2;
  return c;
}

Path trace_of(const config::RunConfig& c, int64_t step, int64_t rank = 0) {
  return c.run_folder() / "profile_traces" / fmt::format("iteration_{}", step) /
         fmt::format("rank{}_trace.json.gz", rank);
}

json read_traces(const std::vector<Path>& files) {
  std::string words = "tests/train/trace_reference.py";
  for (const Path& file : files) words += " " + file.string();
  const auto run = test::run_python(words);
  EXPECT_EQ(run.exit_code, 0) << run.output;
  return json::parse(run.output);
}

std::vector<json> spans_named(const json& trace, const std::string& name) {
  std::vector<json> found;
  for (const json& span : trace.at("spans"))
    if (span.at("name") == name) found.push_back(span);
  return found;
}

TEST_F(Profiles, ATraceHasTheStepsAndWhatHappensInThem) {
  config::RunConfig c = traced_config(scratch);
  c.validation.freq = 6;
  c.validation.steps = 1;
  c.validation.generate = {"ka lo"};
  c.validation.generate_tokens = 2;
  const std::vector<metrics::StepRecord> records = train(c);
  EXPECT_THAT(list_folder(c.run_folder() / "profile_traces"), ElementsAre("iteration_12", "iteration_6"));
  const json traces = read_traces({trace_of(c, 6), trace_of(c, 12)});
  for (const json& trace : traces) {
    EXPECT_EQ(trace.at("ranks"), 1);
    EXPECT_EQ(spans_named(trace, "optimizer").size(), 2u);
    EXPECT_EQ(spans_named(trace, "validation").size(), 1u);
    EXPECT_EQ(spans_named(trace, "samples").size(), 1u);
    // Four micro-batches a step; validation has no backward.
    EXPECT_EQ(spans_named(trace, "backward").size(), 8u);
    for (const char* layer : {"backward, layer 0", "backward, layer 1"})
      EXPECT_EQ(spans_named(trace, layer).size(), 8u);
    EXPECT_GT(spans_named(trace, "forward, layer 1").size(), 8u);
    for (const json& layer : spans_named(trace, "backward, layer 1"))
      EXPECT_THAT(layer.at("inside"), Contains("backward"));
    // Seven matrix products a layer and two gradients of each... all inside of something.
    for (const char* op : {"matmul", "attention_backward", "norm_forward", "adamw", "cross_entropy_forward_backward"}) {
      EXPECT_FALSE(spans_named(trace, op).empty()) << op;
      for (const json& span : spans_named(trace, op)) EXPECT_EQ(span.at("cat"), "op");
    }
    EXPECT_TRUE(std::any_of(trace.at("spans").begin(), trace.at("spans").end(), [](const json& span) {
      return span.at("name").get<std::string>().starts_with("aten::");
    })) << "no operator of LibTorch";
  }
  // The batch of the next step is fetched in each; there is none after step 12.
  EXPECT_EQ(spans_named(traces[0], "data wait").size(), 2u);
  EXPECT_EQ(spans_named(traces[1], "data wait").size(), 1u);
  EXPECT_EQ(spans_named(traces[0], "checkpoint").size(), 0u);
  EXPECT_EQ(spans_named(traces[1], "checkpoint").size(), 1u);
  // The wall clock: a record's time, in whole milliseconds, is within its step.
  const std::vector<std::pair<size_t, int64_t>> steps = {{0, 5}, {0, 6}, {1, 11}, {1, 12}};
  for (const auto& [trace, step] : steps) {
    const std::vector<json> found = spans_named(traces[trace], fmt::format("step {}", step));
    ASSERT_EQ(found.size(), 1u) << step;
    EXPECT_GE(records[static_cast<size_t>(step)].time, found[0].at("begin").get<double>() - 0.0015);
    EXPECT_LE(records[static_cast<size_t>(step)].time, found[0].at("end").get<double>() + 0.0015);
  }
}

TEST_F(Profiles, ProfilingLeavesTheBitsOfTheTrainingAlone) {
  config::RunConfig plain = tiny_config(scratch), traced = traced_config(scratch);
  traced.job.dump_folder = "traced";
  traced.profiling.enable_memory_snapshot = true;
  expect_same_training(train(plain), train(traced));
  EXPECT_EQ(tensors_of(step_of(plain, 12)), tensors_of(step_of(traced, 12)));
}

TEST_F(Profiles, EveryRankWritesItsTraceWithTheCollectives) {
  config::RunConfig c = traced_config(scratch);
  c.parallelism.data_parallel_shard_degree = 2;
  train(c);
  const json traces = read_traces({trace_of(c, 6, 0), trace_of(c, 6, 1)});
  ASSERT_EQ(traces.size(), 2u);
  std::vector<std::vector<std::string>> calls(2);
  for (size_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(traces[rank].at("rank"), rank);
    EXPECT_EQ(traces[rank].at("ranks"), 2);
    EXPECT_THAT(traces[rank].at("threads"), Contains("communication"));
    for (const json& span : traces[rank].at("spans")) {
      if (span.at("cat") != "collective") continue;
      EXPECT_EQ(span.at("args").at("group"), "all ranks");
      calls[rank].push_back(
          fmt::format("{} {}", span.at("name").get<std::string>(), span.at("args").at("bytes").get<int64_t>()));
    }
  }
  EXPECT_EQ(calls[0], calls[1]);
  // Two steps, and four units of weights: the embedding, two layers, the output.
  EXPECT_EQ(std::count_if(calls[0].begin(), calls[0].end(), [](auto& call) { return call.starts_with("reduce_sc"); }),
            8);
  // The sums of two micro-batches, each a loss and a weight in float64.
  EXPECT_EQ(std::count(calls[0].begin(), calls[0].end(), "all_reduce 32"), 2);
}

TEST_F(Profiles, AStartWithinAWindowTracesTheRestOfIt) {
  config::RunConfig c = traced_config(scratch);
  c.training.steps = 5;
  c.profiling.profile_freq = 5;
  c.profiling.enable_profiling = false;
  train(c);
  c = traced_config(scratch);
  c.training.steps = 6;
  train(c);
  const json trace = read_traces({trace_of(c, 6)})[0];
  EXPECT_EQ(spans_named(trace, "step 5").size(), 0u);
  EXPECT_EQ(spans_named(trace, "step 6").size(), 1u);
}

TEST_F(Profiles, ASnapshotHasThePlansNamesBesideTheMeasuredPeak) {
  config::RunConfig c = tiny_config(scratch);
  c.profiling.enable_memory_snapshot = true;
  c.profiling.profile_freq = 12;
  train(c);
  EXPECT_FALSE(path_exists(c.run_folder() / "profile_traces"));
  const json snapshot =
      json::parse(read_file(c.run_folder() / "memory_snapshot" / "iteration_12" / "rank0_memory_snapshot.json"));
  EXPECT_EQ(snapshot.at("step"), 12);
  const json& plan = snapshot.at("plan");
  int64_t sum = 0;
  std::vector<std::string> names;
  for (const json& item : plan.at("items")) {
    sum += item.at("bytes").get<int64_t>();
    names.push_back(item.at("name"));
  }
  EXPECT_EQ(sum, plan.at("total_bytes"));
  EXPECT_THAT(names, Contains("weights, float32"));
  EXPECT_THAT(names, Contains("activations"));
  EXPECT_FALSE(plan.at("activations").empty());
  const json& measured = snapshot.at("measured");
  EXPECT_GT(measured.at("before_bytes").get<int64_t>(), 1 << 20);
  EXPECT_GE(measured.at("peak_bytes").get<int64_t>(), measured.at("now_bytes").get<int64_t>());
}

TEST_F(Profiles, ATraceThatCannotBeWrittenIsAWarning) {
  const config::RunConfig c = traced_config(scratch);
  make_folders(c.run_folder() / "profile_traces");
  write_file_atomic(c.run_folder() / "profile_traces" / "iteration_6", "in the way");
  EXPECT_EQ(train(c).back().step, 12);
  EXPECT_TRUE(path_exists(trace_of(c, 12)));
  const std::string log = read_file(c.run_folder() / "logs" / "rank-00000.log");
  EXPECT_THAT(log, HasSubstr("a trace was not written: "));
  EXPECT_THAT(log, HasSubstr("wrote a trace of steps 11 to 12 to "));
  EXPECT_THAT(log, Not(HasSubstr("wrote a trace of steps 5 to 6")));
}

// Only the data say how long a run of epochs is.
TEST_F(Profiles, AWindowBeyondTheRunEndsItAtTheStart) {
  config::RunConfig c = traced_config(scratch);
  c.training.steps = 0;
  c.training.epochs = 0.01;
  c.profiling.profile_freq = 1000;
  EXPECT_THAT(error_of([&] { run_training(c, {}); }).message(),
              HasSubstr("profiling.profile_freq = 1000 is more than the run's "));
}

}  // namespace
}  // namespace hearth::train
