// SPDX-License-Identifier: Apache-2.0
// The page of runs, as a browser shows it: tests/report/run_page_browser.py.
#include "report/run_page.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "report/bins.h"
#include "report/run_facts.h"
#include "support/environment.h"
#include "support/python.h"

namespace hearth::report {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

metrics::StepRecord step_of_page(int64_t step) {
  metrics::StepRecord r;
  r.step = step;
  r.loss = 10.0 / static_cast<double>(step) + (step % 2 == 0 ? 0.5 : 0);
  r.lr = 1e-3;
  r.grad_norm = 1;
  r.tokens = 100 * step;
  r.step_s = 2;
  r.tokens_per_second = 50;
  r.mfu = 0.25;
  r.time = 1764083000 + 2 * static_cast<double>(step);
  r.memory_bytes = 1 << 30;
  if (step % 20 == 0) r.validation_loss = 3, r.validation_losses = {{"web", 2}};
  if (step == 33) r.skipped = "spike";
  return r;
}

struct RunPageInABrowser : ::testing::Test {
  Path make_page_run(const std::string& name, int64_t steps, const std::string& toml) {
    make_folders(folder / name);
    metrics::JsonlWriter writer(folder / name / "metrics.jsonl");
    for (int64_t step = 1; step <= steps; ++step) {
      writer.append(step_of_page(step));
      if (step == 60)
        writer.append(metrics::Event{
            .name = "rewind", .step = 55, .from_step = 61, .reason = "a </script><b>spike</b>", .time = 1764083200});
      if (step == 60)
        for (int64_t again = 56; again < 61; ++again) writer.append(step_of_page(again));
    }
    if (!toml.empty()) write_file_atomic(folder / name / "config.toml", toml);
    return folder / name / "metrics.jsonl";
  }
  json browse(const RunPage& page) {
    write_file_atomic(folder / "page.html", run_page(page));
    const auto run = test::run_command(fmt::format("{} {} {}", test::oracle_python(),
                                                   test::source_path("tests/report/run_page_browser.py"),
                                                   (folder / "page.html").string()));
    if (run.exit_code == 77) return {};
    EXPECT_EQ(run.exit_code, 0) << run.output;
    return run.exit_code == 0 ? json::parse(run.output) : json();
  }
  test::ScratchFolder folder;
};

TEST_F(RunPageInABrowser, ItDrawsZoomsAndAsksNothingOfTheNetwork) {
  RunPage page{.title = "a < b", .runs = {}, .defaults = configuration_texts({})};
  page.runs.push_back(page_run("one", make_page_run("one", 100, "[training]\nsteps = 200\nseq_len = 64\n")));
  page.runs.push_back(page_run("two", make_page_run("two", 80, "[training]\nsteps = 80\nseq_len = 32\n")));
  const json found = browse(page);
  if (found.is_null()) GTEST_SKIP() << "there is no Chromium or no Playwright";
  EXPECT_EQ(found.at("errors"), json::array());
  EXPECT_EQ(found.at("requests"), json::array());
  for (const char* key : {"loss", "validation", "grad_norm", "lr", "tokens_per_second", "mfu", "data_wait", "memory"})
    EXPECT_GT(found.at("charts").at(key).at("ink"), 500) << key;
  EXPECT_EQ(found["charts"]["loss"]["points"], 100);
  EXPECT_THAT(found["charts"]["validation"]["labels"], ElementsAre("one", "one: web", "two", "two: web"));
  EXPECT_THAT(found["charts"]["lr"]["labels"], ElementsAre("one", "one: planned", "two", "two: planned"));
  for (const json& label : found["axis_labels"]["lr"])
    EXPECT_THAT(label.get<std::string>(), testing::MatchesRegex("0|[0-9.]+e-[0-9]")) << "one form for all";
  EXPECT_FALSE(found["axis_labels"]["lr"].empty());
  EXPECT_THAT(found.at("whole"), ElementsAre(0, 100));
  for (const auto& [key, range] : found.at("zoomed").items()) {  // dragged from a quarter to a half
    EXPECT_NEAR(range[0].get<double>(), 25, 4) << key;
    EXPECT_NEAR(range[1].get<double>(), 50, 4) << key;
  }
  EXPECT_THAT(found.at("unzoomed"), ElementsAre(0, 100));
  EXPECT_EQ(found.at("log"), true);
  EXPECT_LT(found.at("smoothed_change"), 0.6);
  EXPECT_THAT(found.at("tokens"), ElementsAre(0, 10000));
  EXPECT_EQ(found.at("hidden"), (json{false, true}));
  const json& runs = found.at("rows").at("runs");
  EXPECT_EQ(runs[1][1], "not finished");
  EXPECT_EQ(runs[1][2], "100 of 200");
  EXPECT_EQ(runs[2][1], "finished");
  EXPECT_EQ(runs[1][12], "5") << "steps 56 to 60 were repeated";
  EXPECT_THAT(found["texts"]["events"].get<std::string>(), HasSubstr("step 61: a </script><b>spike</b>"));
  // The page first shows the keys that differ between the configurations.
  const json& rows = found["rows"]["configuration"];
  ASSERT_EQ(rows.size(), 3u) << rows;
  EXPECT_THAT(rows[1], ElementsAre("training.seq_len", "64", "32", "2048"));
  EXPECT_THAT(rows[2], ElementsAre("training.steps", "200", "80", "0"));
}

// Three neurons. The model read a bin with one spike, and made two bins with three spikes in all.
TEST_F(RunPageInABrowser, ARecordingStandsNextToTheModelsContinuation) {
  const Path file = make_page_run("one", 40, "");
  metrics::JsonlWriter(file).append(metrics::SampleText{
      .step = 40,
      .prompt = "a.npy",
      .bins = {.made = {{0, 2, 0}, {1, 0, 0}}, .before = {{0, 1, 0}}, .real = {{0, 0, 0}, {0, 40, 0}}}});
  metrics::JsonlWriter(file).append(
      metrics::SampleText{.step = 40, .prompt = "b.npy", .bins = {.made = {{0, 2, 0}}, .before = {}, .real = {}}});
  RunPage page{.title = "rasters", .runs = {}};
  page.runs.push_back(page_run("one", file));
  const json found = browse(page);
  if (found.is_null()) GTEST_SKIP() << "there is no Chromium or no Playwright";
  EXPECT_EQ(found.at("errors"), json::array());
  // Cells of 8 x 8 pixels, and a line of 2 x 24 of which 16 pixels may hide a part of the cell before it.
  EXPECT_THAT(found.at("rasters"),
              ElementsAre((json{"Recording, 5.83 spikes a bin and neuron", 24, 24, 2 * 64 + 48 - 8}),
                          (json{"Model, 0.500 spikes a bin and neuron", 24, 24, 3 * 64 + 48 - 16})));
  EXPECT_THAT(found["texts"]["samples"].get<std::string>(), HasSubstr("Step 40"));
  EXPECT_THAT(found["texts"]["samples"].get<std::string>(), HasSubstr("The model read the bins before the line."));
}

// Steps 41 and 42 of 42. A cell has ink where an expert has more than its share.
TEST_F(RunPageInABrowser, LoadsOfExpertsAreAMapOfStepsAndLayers) {
  const Path file = make_page_run("one", 40, "");
  metrics::JsonlWriter writer(file);
  for (const int64_t step : {41, 42}) {
    metrics::StepRecord record{.step = step, .loss = 2.0};
    record.expert_loads = {{1, 0, step == 41 ? 1.0 : 3.0, 2}, {2, 0.5, step == 41 ? 2.0 : 1.0, 0}};
    record.loss_parts = {{"moe_aux_loss", 0.5}};
    writer.append(record);
  }
  RunPage page{.title = "experts", .runs = {}};
  page.runs.push_back(page_run("one", file));
  const json found = browse(page);
  if (found.is_null()) GTEST_SKIP() << "there is no Chromium or no Playwright";
  EXPECT_EQ(found.at("errors"), json::array());
  EXPECT_THAT(found.at("rasters"),
              ElementsAre(json{"one, layers 1 to 2: at most 3.00 times the mean", 42 * 12, 2 * 12, 2 * 12 * 12}));
  EXPECT_EQ(found["charts"]["moe_aux_loss"]["points"], 2);
}

TEST_F(RunPageInABrowser, SamplesScoresPlanAndMixtureHaveTheirPlaces) {
  const Path file = make_page_run("one", 40, "[training]\nsteps = 200\n");
  File::open_append(file).write(
      "{\"event\": \"sample\", \"step\": 20, \"prompt\": \"Once\", \"text\": \"<i>a</i>\\n b\"}\n"
      "{\"event\": \"sample\", \"step\": 40, \"prompt\": \"Once\", \"text\": \"c\"}\n"
      "{\"event\": \"sample\", \"step\": 40, \"prompt\": \"Twice\", \"text\": \"d\"}\n");
  write_file_atomic(
      folder / "one/scores.jsonl",
      "{\"step\": 20, \"name\": \"arc\", \"value\": 0.5}\n{\"step\": 40, \"name\": \"arc\", \"value\": 0.75}\n");
  write_file_atomic(folder / "one/plan.json",
                    R"({"tokens_per_second": 40, "memory_bytes": 536870912, "before_bytes": 268435456})");
  RunPage page{.title = "all", .runs = {}};
  page.runs.push_back(page_run("one", file));
  page.runs[0].mixture = {{.source = "web", .planned = 0.75, .realised = 0.7, .sequences = 70}, {.source = "code"}};
  const json found = browse(page);
  if (found.is_null()) GTEST_SKIP() << "there is no Chromium or no Playwright";
  EXPECT_EQ(found.at("errors"), json::array());
  const json& rows = found.at("rows");
  EXPECT_EQ(rows.at("samples"), (json{{"run", "step", "text"}, {"one", "40", "c"}, {"one", "20", "<i>a</i>\n b"}}));
  // 50 tokens/s. The peak of 1 GiB has 0.25 GiB of the process.
  EXPECT_EQ(rows.at("plan")[1], (json{"one", "throughput", "40 tokens/s", "50 tokens/s", "125.0 %"}));
  EXPECT_EQ(rows.at("plan")[2], (json{"one", "memory of a rank's tensors", "0.5 GiB", "0.75 GiB", "150.0 %"}));
  EXPECT_EQ(rows.at("mixture")[1], (json{"one", "web", "75.000 %", "70.000 %", "70"}));
  EXPECT_EQ(rows.at("mixture")[2], (json{"one", "code", "", "", ""}));
  EXPECT_THAT(found["charts"]["scores"]["labels"], ElementsAre("one: arc"));
  EXPECT_EQ(found["charts"]["scores"]["points"], 2);
  EXPECT_GT(found["charts"]["scores"]["ink"], 300);
  EXPECT_THAT(found["charts"]["memory"]["labels"], ElementsAre("one", "one: planned"));
}

// Neighbouring steps differ by 0.5 in their losses, and by nothing in their speed.
TEST_F(RunPageInABrowser, ALongRunHasABandFromItsLeastToItsGreatestValues) {
  RunPage page{.title = "long", .runs = {}};
  page.runs.push_back(page_run("one", make_page_run("one", 4000, "")));
  const json found = browse(page);
  if (found.is_null()) GTEST_SKIP() << "there is no Chromium or no Playwright";
  EXPECT_EQ(found.at("errors"), json::array());
  EXPECT_EQ(found["charts"]["loss"]["points"], 1000);
  EXPECT_GT(found["charts"]["loss"]["band"], 3700) << "the label of a rewind takes 13 of the 240 pixels of height";
  EXPECT_LT(found["charts"]["tokens_per_second"]["band"], 1000);
}

// The labels of a chart as the browser laid them out: [text, left, top, right, bottom, colour] each.
void expect_labels_apart(const json& events, const std::string& where) {
  const json& labels = events.at("labels");
  for (size_t i = 0; i < labels.size(); ++i) {
    EXPECT_LE(labels[i][4].get<double>(), events.at("top").get<double>() + 0.5) << where << ": above the curves";
    for (size_t k = 0; k < i; ++k) {
      const bool apart = labels[i][1] >= labels[k][3] || labels[k][1] >= labels[i][3] || labels[i][2] >= labels[k][4] ||
                         labels[k][2] >= labels[i][4];
      EXPECT_TRUE(apart) << where << ": " << labels[i] << " lies over " << labels[k];
    }
  }
}

// The number of events that the labels name: "restart" one, "2 restarts, 1 rewind" three.
int64_t events_in(const json& labels) {
  int64_t count = 0;
  for (const json& label : labels) {
    const std::string text = label[0];
    if (text == "restart" || text == "rewind") ++count;
    for (size_t at = 0; (at = text.find_first_of("0123456789", at)) != std::string::npos;) {
      size_t digits = 0;
      count += std::stoll(text.substr(at), &digits);
      at += digits;
    }
  }
  return count;
}

TEST_F(RunPageInABrowser, LabelsOfManyRestartsLieOverNeitherEachOtherNorTheCurves) {
  const std::vector<std::vector<int64_t>> restarts = {
      {1, 2, 3, 4, 5, 6, 60, 61, 110, 150, 151, 200, 290, 297, 299}, {150}, {3, 298, 299}, {10, 20, 30, 40, 50}};
  RunPage page{.title = "restarts", .runs = {}};
  for (size_t run = 0; run < restarts.size(); ++run) {
    const std::string name = fmt::format("run-{}", run);
    make_folders(folder / name);
    metrics::JsonlWriter writer(folder / name / "metrics.jsonl");
    for (int64_t step = 1; step <= 300; ++step) {
      writer.append(step_of_page(step));
      if (std::find(restarts[run].begin(), restarts[run].end(), step) != restarts[run].end())
        writer.append(metrics::Event{.name = step == 150 || step == 299 ? "rewind" : "resume",
                                     .step = step,
                                     .from_step = step,
                                     .reason = {},
                                     .time = 1764083000});
    }
    write_file_atomic(folder / name / "plan.json", R"({"tokens_per_second": 60, "memory_bytes": 1073741824})");
    page.runs.push_back(page_run(name, folder / name / "metrics.jsonl"));
  }
  const json found = browse(page);
  if (found.is_null()) GTEST_SKIP() << "there is no Chromium or no Playwright";
  EXPECT_EQ(found.at("errors"), json::array());
  for (const auto& [key, events] : found.at("events").items()) {
    expect_labels_apart(events, key);
    EXPECT_EQ(events_in(events.at("labels")), 15 + 1 + 3 + 5) << key << ": " << events.at("labels");
  }
  const json& labels = found["events"]["loss"]["labels"];
  EXPECT_GT(labels.size(), 8u) << "neighbours share a label, others have their own: " << labels;
  const auto count_of = [&labels](const std::string& text) {
    return std::count_if(labels.begin(), labels.end(), [&](const json& label) { return label[0] == text; });
  };
  EXPECT_EQ(count_of("rewind"), 1) << labels;
  EXPECT_GE(count_of("restart"), 2) << labels;
  // About a quarter of the steps: the labels of what is there alone.
  expect_labels_apart(found.at("zoomed_events"), "zoomed");
  const double low = found["zoomed"]["loss"][0], high = found["zoomed"]["loss"][1];
  int64_t inside = 0;
  for (const std::vector<int64_t>& of_run : restarts)
    inside += std::count_if(of_run.begin(), of_run.end(), [&](int64_t step) {
      return low <= static_cast<double>(step) && static_cast<double>(step) <= high;
    });
  EXPECT_GE(inside, 1) << found["zoomed"];
  EXPECT_EQ(events_in(found["zoomed_events"]["labels"]), inside) << found["zoomed_events"];
  EXPECT_EQ(events_in(found["events_of_the_rest"]["labels"]), 1 + 3 + 5) << "the first run is hidden";
}

TEST_F(RunPageInABrowser, TheAxisOfAShortRunBeginsAtZeroAndHasWholeSteps) {
  const std::map<int64_t, std::vector<std::string>> marks = {
      {1, {"0", "1", "2"}}, {3, {"0", "1", "2", "3"}}, {20, {"0", "5", "10", "15", "20"}}};
  for (const auto& [steps, expected] : marks) {
    RunPage page{.title = "short", .runs = {}};
    const std::string name = fmt::format("run-{}", steps);
    page.runs.push_back(page_run(name, make_page_run(name, steps, "")));
    const json found = browse(page);
    if (found.is_null()) GTEST_SKIP() << "there is no Chromium or no Playwright";
    EXPECT_EQ(found.at("errors"), json::array());
    for (const auto& [key, labels] : found.at("x_labels").items())
      EXPECT_EQ(labels, json(expected)) << key << " of " << steps << " steps";
    EXPECT_EQ(found["charts"]["loss"]["points"], steps);
    EXPECT_GT(found["charts"]["loss"]["ink"], 500);
  }
}

// An older Hearth wrote such a share on a machine that was busy when the products were timed.
TEST_F(RunPageInABrowser, NoShareOfTheProductsRateIsAboveOneHundredPercent) {
  make_folders(folder / "one");
  metrics::JsonlWriter writer(folder / "one/metrics.jsonl");
  for (int64_t step = 1; step <= 30; ++step) {
    metrics::StepRecord record = step_of_page(step);
    record.mfu = 1.21;
    writer.append(record);
  }
  RunPage page{.title = "shares", .runs = {}};
  page.runs.push_back(page_run("one", folder / "one/metrics.jsonl"));
  const json found = browse(page);
  if (found.is_null()) GTEST_SKIP() << "there is no Chromium or no Playwright";
  EXPECT_EQ(found["rows"]["runs"][1][8], "100.0 %");
  EXPECT_EQ(found["highest"]["mfu"], 100);
}

TEST_F(RunPageInABrowser, ADamagedRunIsShownWithANote) {
  const Path file = make_page_run("one", 40, "training = 3\n");
  File::open_append(file).write("garbage\n{\"step\": 41, \"lo");
  RunPage page{.title = "damaged", .runs = {}};
  page.runs.push_back(page_run("one", file));
  make_folders(folder / "empty");
  write_file_atomic(folder / "empty/metrics.jsonl", "");
  page.runs.push_back(page_run("empty", folder / "empty/metrics.jsonl"));
  const json found = browse(page);
  if (found.is_null()) GTEST_SKIP() << "there is no Chromium or no Playwright";
  EXPECT_EQ(found.at("errors"), json::array());
  const std::string notes = found.at("texts").at("notes");
  EXPECT_THAT(notes, HasSubstr("one: metrics.jsonl has 1 damaged line, left out here; the first is line 41"));
  EXPECT_THAT(notes, HasSubstr("one: metrics.jsonl ends within a line"));
  EXPECT_THAT(notes, HasSubstr("one: its configuration is not known: "));
  EXPECT_THAT(notes, HasSubstr("empty: metrics.jsonl has no steps"));
  EXPECT_EQ(found["charts"]["loss"]["points"], 40);
}

TEST(Bins, KeepTheLeastAndTheGreatestValue) {
  std::vector<metrics::StepRecord> records;
  for (int64_t step = 1; step <= 10; ++step) {
    records.push_back(step_of_page(step));
    records.back().loss = step == 7 ? 100 : static_cast<double>(step);
  }
  records[9].loss.reset();
  const auto loss = [](const metrics::StepRecord& r) { return r.loss; };
  const Bins bins = binned(records, 4, loss);
  EXPECT_EQ(bins.first, 0);
  EXPECT_THAT(bins.low, ElementsAre(1, 5, 9));
  EXPECT_THAT(bins.mean, ElementsAre(2.5, (5 + 6 + 100 + 8) / 4.0, 9));
  EXPECT_THAT(bins.high, ElementsAre(4, 100, 9));
  EXPECT_EQ(bin_width(1000), 1);
  EXPECT_EQ(bin_width(1001), 2);
  EXPECT_EQ(bin_width(100000), 100);
  EXPECT_EQ(bin_width(0), 1);
  EXPECT_EQ(bin_width(int64_t{1} << 53), ((int64_t{1} << 53) - 1) / 1000 + 1);
}

}  // namespace
}  // namespace hearth::report
