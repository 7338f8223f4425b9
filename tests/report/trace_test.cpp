// SPDX-License-Identifier: Apache-2.0
// Traces: of a closed form, and PyTorch's own.
#include "report/trace.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "metrics/trace_file.h"
#include "report/trace_costs.h"
#include "support/errors.h"
#include "support/hearth_command.h"
#include "support/python.h"

namespace hearth::report {
namespace {

using nlohmann::json;
using test::error_of;
using testing::ElementsAre;
using testing::HasSubstr;

json event(const char* category, const char* name, int thread, double begin, double end) {
  return {{"ph", "X"},     {"cat", category}, {"name", name},      {"pid", 0},
          {"tid", thread}, {"ts", begin},     {"dur", end - begin}};
}

Path written(const Path& file, const json& events) {
  write_file_atomic(file, json{{"distributedInfo", {{"rank", 1}, {"world_size", 4}}}, {"traceEvents", events}}.dump());
  return file;
}

std::map<std::string, std::pair<int64_t, double>> by_name(const TraceCosts& costs) {
  std::map<std::string, std::pair<int64_t, double>> map;
  for (const TraceTime& cost : costs.costs) map[cost.name] = {cost.calls, cost.us};
  return map;
}

// Two steps of 100 us with a product, a collective on each of two threads, and a wait of each kind.
json two_steps() {
  json events =
      json::array({{{"ph", "M"}, {"name", "thread_name"}, {"pid", 0}, {"tid", 1}, {"args", {{"name", "other"}}}}});
  for (const double t : {1000.0, 1100.0}) {
    events.push_back(event("step", t < 1050 ? "step 9" : "step 10", 0, t, t + 100));
    events.push_back(event("layer", "forward, layer 3", 0, t + 5, t + 45));
    events.push_back(event("op", "matmul", 0, t + 10, t + 40));
    events.push_back(event("collective", "all_reduce", 0, t + 45, t + 50));
    events.push_back(event("phase", "optimizer", 0, t + 50, t + 60));
    events.push_back(event("phase", "a part of it", 0, t + 50, t + 60));
    events.push_back(event("op", "adamw", 0, t + 50, t + 60));
    events.push_back(event("wait", "wait for communication", 0, t + 60, t + 70));
    events.push_back(event("data", "data wait", 0, t + 70, t + 75));
    events.push_back(event("collective", "all_gather", 1, t + 20, t + 60));
  }
  return events;
}

TEST(TraceOfAClosedForm, CostsAreSelfTimesAndExposedCommunicationIsNotBehindComputation) {
  const test::ScratchFolder scratch;
  const Trace trace = read_trace(written(scratch / "trace.json", two_steps()));
  EXPECT_THAT(trace.tracks, ElementsAre("0/0", "other"));
  const TraceCosts costs = trace_costs(trace);
  EXPECT_EQ(costs.rank, 1);
  EXPECT_EQ(costs.ranks, 4);
  EXPECT_EQ(costs.steps, 2);
  EXPECT_DOUBLE_EQ(costs.total_us, 200);
  EXPECT_DOUBLE_EQ(costs.computation_us, 2 * (30 + 10));
  EXPECT_DOUBLE_EQ(costs.communication_us, 2 * 40);  // the all_reduce is during the all_gather
  EXPECT_DOUBLE_EQ(costs.exposed_us, 2 * 10);        // from 40 to 50
  EXPECT_DOUBLE_EQ(costs.data_wait_us, 2 * 5);
  const std::map<std::string, std::pair<int64_t, double>> expected = {{"step", {2, 2 * (100 - 40 - 5 - 10 - 10 - 5)}},
                                                                      {"forward, layer", {2, 2 * 10}},
                                                                      {"matmul", {2, 60}},
                                                                      {"all_reduce", {2, 10}},
                                                                      {"optimizer", {2, 0}},
                                                                      {"a part of it", {2, 0}},
                                                                      {"adamw", {2, 20}},
                                                                      {"wait for communication", {2, 20}},
                                                                      {"data wait", {2, 10}},
                                                                      {"all_gather", {2, 80}}};
  EXPECT_EQ(by_name(costs), expected);
  EXPECT_EQ(costs.costs.front().name, "all_gather");
  ASSERT_EQ(costs.phases.size(), 1u);
  EXPECT_EQ(costs.phases[0].name, "optimizer");
  EXPECT_EQ(costs.phases[0].calls, 2);
  EXPECT_DOUBLE_EQ(costs.phases[0].us, 20);
}

// In PyTorch's traces and ours only a GPU's time counts.
TEST(TraceOfAClosedForm, OnAGpuKernelsAreTheCosts) {
  const test::ScratchFolder scratch;
  const json step_of_pytorch = event("user_annotation", "ProfilerStep#3", 0, 0, 100);
  for (const json& step : {step_of_pytorch, event("step", "step 3", 0, 0, 100)}) {
    const json events = {step,
                         event("cpu_op", "aten::mm", 0, 5, 90),
                         event("op", "matmul", 0, 5, 90),
                         event("kernel", "void a::(anonymous namespace)::gemm<b::Half, (c)4>(d::E, f*)", 7, 10, 60),
                         event("kernel", "ncclDevKernel_AllReduce_Sum_f32", 20, 50, 80),
                         event("gpu_memcpy", "Memcpy HtoD", 7, 70, 75),
                         event("kernel", "late", 7, 110, 120)};
    const TraceCosts costs = trace_costs(read_trace(written(scratch / "trace.json", events)));
    EXPECT_EQ(costs.steps, 1);
    EXPECT_DOUBLE_EQ(costs.total_us, 120);   // the GPU works longer than the host's step
    EXPECT_DOUBLE_EQ(costs.exposed_us, 15);  // 60 to 70, and 75 to 80
    EXPECT_THAT(by_name(costs),
                ElementsAre(std::pair("Memcpy HtoD", std::pair(1, 5.0)),
                            std::pair("gemm<b::Half, (c)4>", std::pair(1, 50.0)), std::pair("late", std::pair(1, 10.0)),
                            std::pair("ncclDevKernel_AllReduce_Sum_f32", std::pair(1, 30.0))));
  }
}

TEST(TraceOfPyTorch, SelfTimesAreThoseOfItsOwnTable) {
  const test::ScratchFolder scratch;
  const auto run = test::run_python(fmt::format("tests/report/trace_reference.py {}", scratch.path().string()));
  ASSERT_EQ(run.exit_code, 0) << run.output;
  const json expected = json::parse(run.output.substr(run.output.rfind("{\"self_us\"")));
  const TraceCosts costs = trace_costs(read_trace(scratch / "torch.json"));
  const auto found = by_name(costs);
  ASSERT_GE(expected.at("self_us").size(), 8u);
  for (const auto& [name, row] : expected.at("self_us").items()) {
    ASSERT_TRUE(found.contains(name)) << name;
    EXPECT_EQ(found.at(name).first, row[0].get<int64_t>()) << name;
    // The trace has whole nanoseconds; every event around others adds one of rounding.
    EXPECT_NEAR(found.at(name).second, row[1].get<double>(), 0.02) << name;
  }
  EXPECT_NEAR(costs.communication_us, expected.at("communication_us").get<double>(), 0.02);
  EXPECT_NEAR(costs.exposed_us, expected.at("exposed_us").get<double>(), 0.1);
  EXPECT_GT(costs.exposed_us, 0);
}

// What the trainer's side writes is what this side reads.
TEST(TraceOfHearth, IsReadBackFromGzip) {
  const test::ScratchFolder scratch;
  trace::SpanRecorder::Window window;
  window.threads = {"training"};
  window.begin_wall_ns = 1'700'000'000'123'456'789;
  window.begin_ns = 5'000;
  window.spans = {
      {.kind = trace::SpanKind::kOp, .begin_ns = 6'001, .end_ns = 8'500, .name = "a \"name\""},
      {.kind = trace::SpanKind::kLayer, .begin_ns = 6'000, .end_ns = 9'000, .name = "forward", .number = 2}};
  const Path file = metrics::trace_file(scratch, 10, 3);
  EXPECT_EQ(file, scratch / "iteration_10" / "rank3_trace.json.gz");
  metrics::write_gzip(file, metrics::trace_json(window, {3, 8, 10, 10}));
  const Trace trace = read_trace(file);
  EXPECT_EQ(trace.rank, 3);
  EXPECT_EQ(trace.ranks, 8);
  EXPECT_THAT(trace.tracks, ElementsAre("training"));
  ASSERT_EQ(trace.events.size(), 2u);
  EXPECT_EQ(trace.events[0].name, "a \"name\"");
  EXPECT_NEAR(trace.events[0].end_us - trace.events[0].begin_us, 2.499, 1e-4);
  EXPECT_EQ(trace.events[1].name, "forward, layer 2");
  EXPECT_EQ(trace.events[1].category, "layer");
  // 1,700,000,000 s is 80,000 s into a day.
  EXPECT_NEAR(trace.events[1].begin_us, 80000.123456789 * 1e6 + 1, 1e-3);
}

TEST(TraceFolders, TheNewestIterationIsTakenAndItsRanksInOrder) {
  const test::ScratchFolder scratch;
  const Path traces = scratch / "run" / "profile_traces";
  for (const char* name :
       {"iteration_9/rank0_trace.json", "iteration_10/rank10_trace.json", "iteration_10/rank2_trace.json"}) {
    make_folders((traces / name).parent_path());
    written(traces / name, two_steps());
  }
  const Path newest = traces / "iteration_10";
  const auto ranks = ElementsAre(newest / "rank2_trace.json", newest / "rank10_trace.json");
  EXPECT_THAT(trace_files(scratch / "run"), ranks);
  EXPECT_THAT(trace_files(traces), ranks);
  EXPECT_THAT(trace_files(newest), ranks);
  const auto shown = test::run_hearth(fmt::format("inspect trace {}", (scratch / "run").string()));
  EXPECT_EQ(shown.exit_code, 0) << shown.output;
  EXPECT_THAT(shown.output, HasSubstr("2 ranks, 2 steps, 200.0 us in the mean"));
  EXPECT_THAT(shown.output, HasSubstr("matmul                                           60.0 us    30.0 %         2"));
  EXPECT_THAT(shown.output,
              HasSubstr("\nphases                                              time     share     calls\n"
                        "optimizer                                        20.0 us    10.0 %         2\n"));
}

TEST(TraceOfAClosedForm, NamesOfAForeignFileAreSafeForATerminal) {
  const test::ScratchFolder scratch;
  const std::string umlauts = std::string(60, 'x') + "\u00e4\u00e4\u00e4";  // a cut after 61 bytes halves a letter
  const json events = {event("op", "a\x1b[2Jb\n", 0, 0, 10), event("op", umlauts.c_str(), 0, 10, 15)};
  const std::string text = format_trace_costs({trace_costs(read_trace(written(scratch / "trace.json", events)))}, 10);
  EXPECT_THAT(text, HasSubstr("\na?[2Jb?  "));
  EXPECT_THAT(text, HasSubstr("\n" + std::string(60, 'x') + "...  "));
}

TEST(TraceFolders, ARunFileNamesTheFolderOfItsTraces) {
  const test::ScratchFolder scratch;
  write_file_atomic(scratch / "config.toml", "[profiling]\nsave_traces_folder = \"mine\"\n");
  write_file_atomic(scratch / "plan.json", "{}");
  EXPECT_THAT(error_of([&] { trace_files(scratch); }).message(), HasSubstr("mine has no traces"));
  make_folders(scratch / "mine/iteration_3");
  const Path file = written(scratch / "mine/iteration_3/rank0_trace.json", two_steps());
  EXPECT_THAT(trace_files(scratch), ElementsAre(file));
}

TEST(TraceFolders, WhatIsNoTraceIsOneClearError) {
  const test::ScratchFolder scratch;
  EXPECT_THAT(error_of([&] { trace_files(scratch / "nothing"); }).message(), HasSubstr("does not exist"));
  EXPECT_THAT(error_of([&] { trace_files(scratch); }).message(), HasSubstr("has no traces"));
  write_file_atomic(scratch / "text.json", "no JSON");
  EXPECT_THAT(error_of([&] { read_trace(scratch / "text.json"); }).message(), HasSubstr("text.json is not a trace"));
  write_file_atomic(scratch / "cut.json", json{{"traceEvents", two_steps()}}.dump().substr(0, 500));
  EXPECT_THAT(error_of([&] { read_trace(scratch / "cut.json"); }).message(), HasSubstr("cut.json is not a trace"));
  write_file_atomic(scratch / "other.json", R"({"loss": 3})");
  EXPECT_THAT(error_of([&] { read_trace(scratch / "other.json"); }).message(), HasSubstr("has no complete events"));
  write_file_atomic(scratch / "words.json", R"({"traceEvents": [{"ph": "X", "name": "a", "ts": "soon"}]})");
  EXPECT_THAT(error_of([&] { read_trace(scratch / "words.json"); }).message(), HasSubstr("words.json is not a trace"));
  write_file_atomic(scratch / "back.json", R"({"traceEvents": [{"ph": "X", "name": "a", "ts": 1, "dur": -1}]})");
  EXPECT_THAT(error_of([&] { read_trace(scratch / "back.json"); }).message(), HasSubstr("back.json is not a trace"));
  metrics::write_gzip(scratch / "torn.json.gz", json{{"traceEvents", two_steps()}}.dump());
  const std::string packed = read_file(scratch / "torn.json.gz");
  write_file_atomic(scratch / "torn.json.gz", packed.substr(0, packed.size() / 2));
  EXPECT_THAT(error_of([&] { read_trace(scratch / "torn.json.gz"); }).message(), HasSubstr("torn.json.gz"));
  EXPECT_EQ(test::run_hearth(fmt::format("inspect trace {}", (scratch / "text.json").string())).exit_code, 3);
}

}  // namespace
}  // namespace hearth::report
