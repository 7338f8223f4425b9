// SPDX-License-Identifier: Apache-2.0
// What TensorBoard itself reads in the files of a training.
#include "metrics/tensorboard.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/environment.h"
#include "support/python.h"

namespace hearth::metrics {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

json read_by_tensorboard(const Path& folder) {
  const auto run = test::run_python(fmt::format("tests/metrics/tensorboard_reference.py {}", folder.string()));
  EXPECT_EQ(run.exit_code, 0) << run.output;
  return json::parse(run.output);
}

std::vector<int64_t> steps_with(const json& read, const std::string& tag) {
  std::vector<int64_t> steps;
  for (const json& point : read.at("scalars").value(tag, json::array())) steps.push_back(point[0]);
  return steps;
}

constexpr const char* kLoss = "loss_metrics/global_avg_loss";

StepRecord step_record(int64_t step) {
  StepRecord r;
  r.step = step;
  r.loss = 8 - 0.25 * static_cast<double>(step);
  r.grad_norm = 1.5;
  r.lr = 1e-3;
  r.tokens = 4096 * step;
  r.step_s = step % 2 == 0 ? 3 : 1;
  r.tokens_per_second = 4096 / r.step_s;
  r.mfu = 0.5 / r.step_s;
  r.data_wait_s = 0.5;
  r.time = 1764083000 + 2 * static_cast<double>(step);
  r.memory_bytes = int64_t{3} << 29;
  return r;
}

struct TensorboardFiles : ::testing::Test {
  Tensorboard::Options options(int64_t first_step, int64_t log_freq = 2) const {
    return {.folder = folder,
            .first_step = first_step,
            .last_step = 9,
            .log_freq = log_freq,
            .time = 1764083000 + static_cast<double>(first_step)};
  }
  test::ScratchFolder scratch;
  Path folder = scratch / "tb";
};

TEST_F(TensorboardFiles, PointsHaveTorchtitansTagsAndMeansSinceTheLastOne) {
  {
    Tensorboard::Options with_text = options(0, 4);
    with_text.configuration = "[training]\nsteps = 9\n";
    Tensorboard tensorboard(with_text, {});
    for (int64_t step = 1; step <= 9; ++step) tensorboard.step(step_record(step));
  }
  const json read = read_by_tensorboard(folder);
  for (const auto& [tag, points] : read.at("scalars").items())
    EXPECT_THAT(steps_with(read, tag), ElementsAre(1, 4, 8, 9)) << tag;
  const auto at_8 = [&read](const char* tag) { return read.at("scalars").at(tag)[2][1].get<double>(); };
  EXPECT_EQ(at_8(kLoss), 6);
  EXPECT_EQ(at_8("grad_norm"), 1.5);
  EXPECT_FLOAT_EQ(static_cast<float>(at_8("lr")), 1e-3f);
  EXPECT_EQ(at_8("n_tokens_seen"), 32768);
  // Steps 5 to 8 take 1, 3, 1 and 3 s: 4 * 4096 tokens in 8 s, and half of the peak in one second of each.
  EXPECT_EQ(at_8("throughput(tps)"), 2048);
  EXPECT_EQ(at_8("mfu(%)"), 25);
  EXPECT_EQ(at_8("time_metrics/end_to_end(s)"), 2);
  EXPECT_EQ(at_8("time_metrics/data_loading(s)"), 0.5);
  EXPECT_EQ(at_8("time_metrics/data_loading(%)"), 25);
  EXPECT_EQ(at_8("memory/max_active(GiB)"), 1.5);
  EXPECT_EQ(read["scalars"].size(), 10u);
  EXPECT_EQ(read["scalars"][kLoss][2][2], 1764083016);
  EXPECT_THAT(read.at("texts").at("configuration").get<std::string>(), HasSubstr("steps = 9"));
}

TEST_F(TensorboardFiles, EveryValidationIsAPointAndEachSetHasATag) {
  {
    Tensorboard tensorboard(options(0, 100), {});
    StepRecord start;
    start.validation_loss = 9;
    start.time = 1764083000;
    tensorboard.step(start);
    for (int64_t step = 1; step <= 6; ++step) {
      StepRecord r = step_record(step);
      if (step % 3 == 0) r.validation_loss = 7, r.validation_losses = {{"web", 6}, {"books", 8}};
      tensorboard.step(r);
    }
  }
  const json read = read_by_tensorboard(folder);
  EXPECT_THAT(steps_with(read, "validation_metrics/loss"), ElementsAre(0, 3, 6));
  EXPECT_THAT(steps_with(read, "validation_metrics/loss/web"), ElementsAre(3, 6));
  EXPECT_EQ(read["scalars"]["validation_metrics/loss/books"][1][1], 8);
  EXPECT_THAT(steps_with(read, kLoss), ElementsAre(1)) << "the first step, and no hundredth";
}

TEST_F(TensorboardFiles, AResumeAndARewindLeaveEachStepOnce) {
  {
    Tensorboard first(options(0, 1), {});
    for (int64_t step = 1; step <= 6; ++step) first.step(step_record(step));
  }
  {
    Tensorboard second(options(4, 1), {});
    for (int64_t step = 5; step <= 7; ++step) {
      StepRecord r = step_record(step);
      r.loss = 100;
      second.step(r);
    }
    second.rewind(1764083100, 5);
    StepRecord r = step_record(6);
    r.loss = 200;
    second.step(r);
  }
  const json read = read_by_tensorboard(folder);
  EXPECT_THAT(steps_with(read, kLoss), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_EQ(read["scalars"][kLoss][3][1], 7);
  EXPECT_EQ(read["scalars"][kLoss][4][1], 100);
  EXPECT_EQ(read["scalars"][kLoss][5][1], 200);
}

// A kill tears the last event; the next start's file is read all the same.
TEST_F(TensorboardFiles, AFileThatWasCutIsReadUpToThere) {
  {
    Tensorboard first(options(0, 1), {});
    for (int64_t step = 1; step <= 4; ++step) first.step(step_record(step));
  }
  const Path file = folder / list_folder(folder).at(0);
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 7);
  {
    Tensorboard second(options(2, 1), {});
    for (int64_t step = 3; step <= 5; ++step) second.step(step_record(step));
  }
  EXPECT_THAT(steps_with(read_by_tensorboard(folder), kLoss), ElementsAre(1, 2, 3, 4, 5));
}

TEST_F(TensorboardFiles, StepsBeforeTheFirstFileAreWrittenToo) {
  std::vector<StepRecord> past{step_record(1), step_record(2), step_record(3)};
  {
    Tensorboard tensorboard(options(3, 1), past);
    tensorboard.step(step_record(4));
  }
  EXPECT_THAT(steps_with(read_by_tensorboard(folder), kLoss), ElementsAre(1, 2, 3, 4));
  { const Tensorboard again(options(2, 1), past); }
  EXPECT_THAT(steps_with(read_by_tensorboard(folder), kLoss), ElementsAre(1, 2)) << "there are files: no past again";
}

TEST_F(TensorboardFiles, TheTimesOfAnOlderRunAreCountedBack) {
  std::vector<StepRecord> records{step_record(1), step_record(2), step_record(3), step_record(4)};
  for (const size_t i : {0u, 1u, 3u}) records[i].time = 0;
  estimate_times(records, 1764084000);
  EXPECT_EQ(records[3].time, 1764084000);
  EXPECT_EQ(records[2].time, 1764083006) << "its own";
  EXPECT_EQ(records[1].time, 1764083005) << "step 3 took a second";
  EXPECT_EQ(records[0].time, 1764083002) << "step 2 took three";
}

TEST_F(TensorboardFiles, ALossThatIsNoNumberIsLeftOut) {
  {
    Tensorboard tensorboard(options(0, 1), {});
    StepRecord r = step_record(1);
    r.loss = r.grad_norm = std::nullopt;
    r.skipped = "nan";
    tensorboard.step(r);
  }
  const json read = read_by_tensorboard(folder);
  EXPECT_THAT(steps_with(read, kLoss), ElementsAre());
  EXPECT_THAT(steps_with(read, "lr"), ElementsAre(1));
}

}  // namespace
}  // namespace hearth::metrics
