// SPDX-License-Identifier: Apache-2.0
// The metrics file: what is written is read back, bit for bit, and a kill anywhere leaves a file that is still read.
#include "metrics/jsonl.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "support/environment.h"
#include "support/errors.h"

namespace hearth::metrics {
namespace {

using testing::HasSubstr;
using testing::Not;

StepRecord record(int64_t step, double loss) {
  StepRecord r;
  r.step = step;
  r.loss = loss;
  r.grad_norm = loss / 3;
  r.lr = 1e-3 / 7;
  r.tokens = step * 4096;
  r.tokens_per_second = 1234.5678901234567;
  r.mfu = 0.1;
  r.first_sample = static_cast<uint64_t>(step) * 4;
  r.samples = 4;
  r.data_wait_s = 1e-7;
  r.step_s = 0.3;
  r.time = 1764083655.123 + static_cast<double>(step);
  r.memory_bytes = int64_t{3} << 31;
  return r;
}

void append_raw(const Path& path, std::string_view text) {
  File file = File::open_append(path);
  file.write(text);
}

std::vector<int64_t> steps_of(const std::vector<StepRecord>& records) {
  std::vector<int64_t> steps;
  for (const StepRecord& r : records) steps.push_back(r.step);
  return steps;
}

struct Jsonl : testing::Test {
  test::ScratchFolder scratch;
  const Path path = scratch / "metrics.jsonl";
};

// An older Hearth wrote what a busy machine had measured.
TEST_F(Jsonl, AShareOfTheProductsRateIsReadAsAtMostOne) {
  StepRecord r = record(1, 2);
  r.mfu = 1.21;
  JsonlWriter(path).append(r);
  EXPECT_EQ(read_metrics(path).front().mfu, 1);
}

TEST_F(Jsonl, EveryNumberReadsBackAsTheSameBits) {
  const double awkward[] = {1.0 / 3,
                            5.545177444479562,
                            1e-300,
                            std::nextafter(2.0, 3.0),
                            4.9e-324,
                            123456789.0,
                            std::numeric_limits<double>::max()};
  JsonlWriter writer(path);
  int64_t step = 0;
  for (const double value : awkward) writer.append(record(++step, value));
  const std::vector<StepRecord> records = read_metrics(path);
  ASSERT_EQ(records.size(), std::size(awkward));
  for (size_t i = 0; i < records.size(); ++i) {
    EXPECT_EQ(std::bit_cast<uint64_t>(*records[i].loss), std::bit_cast<uint64_t>(awkward[i]));
    EXPECT_EQ(records[i], record(static_cast<int64_t>(i) + 1, awkward[i]));
  }
}

TEST_F(Jsonl, ALineHasTheNamesThatAreDocumented) {
  JsonlWriter writer(path);
  StepRecord r = record(7, 2.5);
  r.validation_loss = 2.75;
  writer.append(r);
  const auto object = nlohmann::json::parse(read_file(path));
  for (const char* name : {"step", "loss", "grad_norm", "lr", "tokens", "tokens_per_second", "mfu", "first_sample",
                           "samples", "data_wait_s", "step_s", "time", "memory_bytes", "validation_loss"})
    EXPECT_TRUE(object.contains(name)) << name;
  EXPECT_EQ(object.size(), 14u);
  EXPECT_EQ(object["loss"], 2.5);
}

TEST_F(Jsonl, SubstitutesAreCountedWhereThereAreAny) {
  StepRecord some = record(1, 2), none = record(2, 2);
  some.substituted = 3;
  JsonlWriter writer(path);
  writer.append(some);
  writer.append(none);
  EXPECT_EQ(read_metrics(path), (std::vector<StepRecord>{some, none}));
  const std::string text = read_file(path);
  EXPECT_THAT(text, HasSubstr("\"substituted\": 3,"));
  EXPECT_THAT(text, Not(HasSubstr("\"substituted\": 0")));
}

TEST_F(Jsonl, LoadsOfExpertsAreWrittenForTheLayersThatHaveThem) {
  StepRecord some = record(1, 2), none = record(2, 2);
  some.expert_loads = {{1, 0, 2.0 / 3, 4, 1.25}, {3, 0.5, 1.75, 0, 0.5}};
  some.loss_parts = {{"moe_aux_loss", 0.125}};
  JsonlWriter writer(path);
  writer.append(some);
  writer.append(none);
  EXPECT_EQ(read_metrics(path), (std::vector<StepRecord>{some, none}));
  const std::string text = read_file(path);
  const auto object = nlohmann::json::parse(text.substr(0, text.find('\n')));
  EXPECT_EQ(object.at("expert_loads").at(1), nlohmann::json::parse("[3, 0.5, 1.75, 0, 0.5]"));
  EXPECT_EQ(object.at("moe_aux_loss"), 0.125);
  EXPECT_FALSE(object.contains("moe_z_loss"));
  EXPECT_EQ(text.find("expert_loads"), text.rfind("expert_loads"));
}

TEST_F(Jsonl, NamedSetsHaveAKeyEach) {
  StepRecord r = record(1, 2);
  r.validation_loss = 1.0 / 3;
  r.validation_losses = {{"web", 1.0 / 7}, {"books-2", 3}};
  JsonlWriter writer(path);
  writer.append(r);
  EXPECT_EQ(read_metrics(path), std::vector<StepRecord>{r});
  const auto object = nlohmann::json::parse(read_file(path));
  EXPECT_EQ(object.at("validation_loss.web"), 1.0 / 7);
  EXPECT_EQ(object.at("validation_loss.books-2"), 3);
}

TEST_F(Jsonl, WhatWasNotMeasuredIsLeftOut) {
  StepRecord r;
  r.validation_loss = 5.5;
  JsonlWriter(path).append(r);
  const auto object = nlohmann::json::parse(read_file(path));
  EXPECT_FALSE(object.contains("loss"));
  EXPECT_EQ(object["validation_loss"], 5.5);
  EXPECT_EQ(read_metrics(path), std::vector<StepRecord>{r});
}

TEST_F(Jsonl, AResumeTakesBackTheStepsPastIt) {
  JsonlWriter writer(path);
  for (int64_t step = 1; step <= 5; ++step) writer.append(record(step, 10.0 + static_cast<double>(step)));
  writer.append(Event{.name = "resume", .step = 3});
  for (int64_t step = 4; step <= 6; ++step) writer.append(record(step, 20.0 + static_cast<double>(step)));
  const auto records = read_metrics(path);
  EXPECT_EQ(steps_of(records), (std::vector<int64_t>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(*records[2].loss, 13);
  EXPECT_EQ(*records[3].loss, 24);
}

TEST_F(Jsonl, AResumeThatTrainedNothingYetTakesBackItsStepsToo) {
  JsonlWriter writer(path);
  for (int64_t step = 1; step <= 5; ++step) writer.append(record(step, 1));
  writer.append(Event{.name = "resume", .step = 3});
  EXPECT_EQ(steps_of(read_metrics(path)), (std::vector<int64_t>{1, 2, 3}));
}

// A run that was killed before its first checkpoint begins again at step 1.
TEST_F(Jsonl, AResumeAtTheBeginningTakesBackAllSteps) {
  JsonlWriter writer(path);
  for (int64_t step = 1; step <= 5; ++step) writer.append(record(step, 10));
  writer.append(Event{.name = "resume", .step = 0});
  for (int64_t step = 1; step <= 2; ++step) writer.append(record(step, 20));
  const auto records = read_metrics(path);
  EXPECT_EQ(steps_of(records), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(*records[1].loss, 20);
}

// An older start looks at the lease, is stopped, and writes when it wakes: after the newer start has gone on.
TEST_F(Jsonl, AStepOfAnOlderStartThatWakesLateTakesNothingBack) {
  JsonlWriter writer(path);
  for (int64_t step = 1; step <= 4; ++step) writer.append(record(step, 10));
  writer.append(Event{.name = "resume", .step = 2});
  for (int64_t step = 3; step <= 6; ++step) writer.append(record(step, 20));
  writer.append(record(5, 10));
  for (int64_t step = 7; step <= 8; ++step) writer.append(record(step, 20));
  writer.append(record(5, 10));
  const auto records = read_metrics(path);
  EXPECT_EQ(steps_of(records), (std::vector<int64_t>{1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(*records[4].loss, 20);
  const History history = read_history(path);
  EXPECT_EQ(steps_of(history.records), steps_of(records));
  EXPECT_EQ(history.repeated_steps, 4);  // two that the resume undid, and two of the older start
  EXPECT_EQ(history.events.size(), 1U);
}

// Steps between two resumes count unless a later resume goes back behind them.
TEST_F(Jsonl, EventsAreReadBackButForThoseThatWereUndone) {
  const Event rewind{.name = "rewind",
                     .step = 4,
                     .next_sample = 60,
                     .from_step = 7,
                     .rewinds = 2,
                     .reason = "the loss is \"nan\"",
                     .loss = 1.0 / 3};
  const Event resume{.name = "resume", .step = 4, .next_sample = 60}, later{.name = "resume", .step = 8};
  JsonlWriter writer(path);
  for (int64_t step = 1; step <= 6; ++step) writer.append(record(step, 1));
  writer.append(rewind);
  writer.append(resume);
  for (int64_t step = 5; step <= 9; ++step) writer.append(record(step, 1));
  writer.append(later);
  EXPECT_EQ(read_events(path), (std::vector<Event>{rewind, resume, later}));
  EXPECT_EQ(steps_of(read_metrics(path)), (std::vector<int64_t>{1, 2, 3, 4, 5, 6, 7, 8}));
  JsonlWriter(path).append(Event{.name = "resume", .step = 3});
  EXPECT_EQ(read_events(path), (std::vector<Event>{{.name = "resume", .step = 3}}));
  const std::string text = read_file(path);
  const auto object = nlohmann::json::parse(
      text.substr(text.find("{\"event\""), text.find('\n', text.find("rewind")) - text.find("{\"event\"")));
  EXPECT_EQ(object.at("reason"), rewind.reason);
  EXPECT_EQ(object.at("from_step"), 7);
  EXPECT_FALSE(object.contains("grad_norm")) << "it was no number";
}

TEST_F(Jsonl, ANumberThatIsNoneIsOurBugAndWritesNothing) {
  JsonlWriter writer(path);
  for (const double bad : {std::nan(""), std::numeric_limits<double>::infinity()})
    EXPECT_EQ(test::error_of([&] { writer.append(record(1, bad)); }).code(), ExitCode::kBug);
  EXPECT_EQ(read_file(path), "");
}

TEST_F(Jsonl, AKillAnywhereInALineLeavesAFileThatIsReadAndContinued) {
  {
    JsonlWriter writer(path);
    writer.append(record(1, 1));
    writer.append(record(2, 2));
  }
  const std::string whole = read_file(path);
  const size_t first_line = whole.find('\n') + 1;
  for (size_t cut = 0; cut < whole.size(); ++cut) {
    std::filesystem::remove(path);
    append_raw(path, whole.substr(0, cut));
    EXPECT_EQ(read_metrics(path).size(), cut >= first_line ? 1u : 0u);
    {
      JsonlWriter writer(path);
      writer.append(Event{.name = "resume", .step = cut >= first_line ? 1 : 0});
      writer.append(record(9, 9));
    }
    const auto records = read_metrics(path);
    ASSERT_FALSE(records.empty());
    EXPECT_EQ(records.size(), cut >= first_line ? 2u : 1u) << "cut at " << cut;
    EXPECT_EQ(records.back(), record(9, 9));
  }
}

TEST_F(Jsonl, AMissingFileIsNoSteps) { EXPECT_TRUE(read_metrics(scratch / "none.jsonl").empty()); }

TEST_F(Jsonl, AWrongLineInTheMiddleIsNamed) {
  for (const char* line : {"{\"step\": 2, \"lo\n", "{\"event\": \"resume\", \"step\": 1e300}\n"}) {
    remove_file(path);
    JsonlWriter(path).append(record(1, 1));
    append_raw(path, line);
    JsonlWriter(path).append(record(3, 3));
    try {
      read_metrics(path);
      FAIL() << "no error";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::kDamaged);
      EXPECT_THAT(e.message(), HasSubstr("metrics.jsonl:2 ")) << e.message();
    }
  }
}

// What the strict readers refuse, and what they leave out.
TEST_F(Jsonl, AHistoryHasAllThatADamagedFileSays) {
  {
    JsonlWriter writer(path);
    for (int64_t step = 1; step <= 5; ++step) writer.append(record(step, 1));
    writer.append(Event{.name = "resume", .step = 3, .time = 1764083000.5});
    writer.append(record(4, 2));
    writer.append(Event{.name = "resume", .step = 2});
    writer.append(record(3, 3));
  }
  append_raw(path, "{\"step\": 4, \"lo\n[1]\n\x01\xff\n{\"step\": \"4\"}\n");
  {
    JsonlWriter writer(path);
    writer.append(record(4, 4));
  }
  append_raw(path, "{\"step\": 5");
  const History history = read_history(path);
  EXPECT_EQ(history.records, (std::vector<StepRecord>{record(1, 1), record(2, 1), record(3, 3), record(4, 4)}));
  EXPECT_EQ(history.events, (std::vector<Event>{{.name = "resume", .step = 3, .from_step = 5, .time = 1764083000.5},
                                                {.name = "resume", .step = 2, .from_step = 4}}));
  EXPECT_EQ(history.repeated_steps, 4) << "steps 4 and 5, step 4 again, and step 3";
  EXPECT_EQ(history.damaged_lines, (std::vector<int64_t>{10, 11, 12, 13}));
  EXPECT_TRUE(history.torn);
  EXPECT_TRUE(read_history(scratch / "none").records.empty());
  EXPECT_FALSE(read_history(scratch / "none").torn);
}

TEST_F(Jsonl, AStepThatNoTrainingHasIsADamagedLine) {
  JsonlWriter(path).append(record(1, 1));
  const std::string line = read_file(path);
  for (const char* step : {"-1", "9223372036854775807", "18446744073709551615", "1.5", "1e300"})
    append_raw(path, fmt::format("{{\"step\": {}{}", step, line.substr(line.find(','))));
  append_raw(path, "{\"event\": \"resume\", \"step\": -1}\n");
  const History history = read_history(path);
  EXPECT_EQ(history.records, std::vector<StepRecord>{record(1, 1)});
  EXPECT_EQ(history.damaged_lines, (std::vector<int64_t>{2, 3, 4, 5, 6, 7}));
}

TEST_F(Jsonl, ATextOfTheModelIsALineOfItsOwnThatReadersOfStepsSkip) {
  JsonlWriter writer(path);
  writer.append(record(1, 1));
  writer.append(SampleText{.step = 1,
                           .prompt = "say \"\n\"",
                           .text = "half a character: \xE2\x82",
                           .tokens = 4,
                           .ended = true,
                           .seed = 4294967295,
                           .time = 1764083000.5});
  writer.append(record(2, 1));
  EXPECT_EQ(steps_of(read_metrics(path)), (std::vector<int64_t>{1, 2}));
  EXPECT_TRUE(read_events(path).empty());
  const History history = read_history(path);
  EXPECT_TRUE(history.damaged_lines.empty());
  ASSERT_EQ(history.samples.size(), 1u);
  EXPECT_EQ(history.samples[0], (SampleText{.step = 1,
                                            .prompt = "say \"\n\"",
                                            .text = "half a character: \xEF\xBF\xBD",
                                            .tokens = 4,
                                            .ended = true,
                                            .seed = 4294967295,
                                            .time = 1764083000.5}));
  const std::string text = read_file(path);
  const size_t begin = text.find('\n') + 1;
  EXPECT_EQ(nlohmann::json::parse(text.substr(begin, text.find('\n', begin) - begin)),
            nlohmann::json({{"event", "sample"},
                            {"step", 1},
                            {"prompt", "say \"\n\""},
                            {"text", "half a character: \xEF\xBF\xBD"},
                            {"tokens", 4},
                            {"ended", true},
                            {"seed", 4294967295},
                            {"time", 1764083000.5}}));
}

TEST_F(Jsonl, AContinuedRecordingHasItsBins) {
  const SampleText sample{.step = 4,
                          .prompt = "a.npy",
                          .tokens = 8,
                          .seed = 7,
                          .bins = {.made = {{0, 255, 1}, {2, 0, 0}}, .before = {{9, 8, 7}}, .real = {}}};
  JsonlWriter(path).append(sample);
  EXPECT_EQ(read_file(path),
            "{\"event\": \"sample\", \"step\": 4, \"prompt\": \"a.npy\", \"bins\": [[0, 255, 1], [2, 0, 0]], "
            "\"before\": [[9, 8, 7]], \"real\": [], \"tokens\": 8, \"ended\": false, \"seed\": 7}\n");
  EXPECT_EQ(read_history(path).samples, std::vector<SampleText>{sample});
}

TEST_F(Jsonl, DamagedBinsAreADamagedLine) {
  int64_t lines = 0;
  for (const char* bins : {"[[0, 256]]", "[[0, -1]]", "[[0], [0, 1]]", "[[]]", "[]", "[[0.5]]", "7", "[3]"}) {
    append_raw(path,
               fmt::format("{{\"event\": \"sample\", \"step\": 4, \"prompt\": \"\", \"bins\": {}, \"before\": [], "
                           "\"real\": []}}\n",
                           bins));
    ++lines;
  }
  const History history = read_history(path);
  EXPECT_TRUE(history.samples.empty());
  EXPECT_EQ(std::ssize(history.damaged_lines), lines);
}

}  // namespace
}  // namespace hearth::metrics
