// SPDX-License-Identifier: Apache-2.0
#include "report/loss_curve.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <regex>

#include "base/error.h"
#include "base/file.h"
#include "support/environment.h"
#include "support/errors.h"

namespace hearth::report {
namespace {

// What a reader of the picture sees: tests/report/loss_curve_reference.py.
nlohmann::json shown(const std::string& svg) {
  const test::ScratchFolder scratch;
  write_file_atomic(scratch / "loss.svg", svg);
  const auto run = test::run_command(fmt::format(
      "python3 {} {}", test::source_path("tests/report/loss_curve_reference.py"), (scratch / "loss.svg").string()));
  EXPECT_EQ(run.exit_code, 0) << run.output;
  return nlohmann::json::parse(run.output);
}

std::vector<metrics::StepRecord> falling(int64_t steps) {
  std::vector<metrics::StepRecord> records;
  for (int64_t step = 1; step <= steps; ++step) {
    metrics::StepRecord record;
    record.step = step;
    record.loss = 2 + 5 * std::exp(-static_cast<double>(step) / 40);
    if (step % 50 == 0) record.validation_loss = *record.loss + 0.25;
    records.push_back(record);
  }
  return records;
}

TEST(LossCurve, ThePictureShowsTheLossOfEveryStep) {
  const std::vector<metrics::StepRecord> records = falling(200);
  const nlohmann::json found = shown(loss_curves_svg({{"", records}}, "a < b & c"));
  const auto& training = found.at("training").at(0);
  ASSERT_EQ(training.size(), records.size());
  for (size_t i = 0; i < records.size(); ++i) {
    EXPECT_NEAR(training[i][0].get<double>(), static_cast<double>(records[i].step), 0.02) << i;
    // The highest hundredth is drawn at the upper edge.
    if (i > 2) {
      EXPECT_NEAR(training[i][1].get<double>(), *records[i].loss, 0.002) << i;
    }
  }
  ASSERT_EQ(found.at("validation").at(0).size(), 4u);
  EXPECT_NEAR(found["validation"][0][1][1].get<double>(), *records[99].validation_loss, 0.002);
}

TEST(LossCurve, AShortTrainingHasMarksOnWholeStepsAlone) {
  for (const auto& [steps, expected] : {std::pair{1, "0 1 "}, {3, "0 1 2 3 "}, {20, "0 5 10 15 20 "}}) {
    const std::string picture = loss_curves_svg({{"", falling(steps)}}, "short");
    const std::regex mark("<text class=\"step\"[^>]*>([^<]*)<");
    std::string marks;
    for (std::sregex_iterator it(picture.begin(), picture.end(), mark), end; it != end; ++it)
      marks += (*it)[1].str() + " ";
    EXPECT_EQ(marks, expected) << steps << " steps";
  }
}

TEST(LossCurve, ALongTrainingIsDrawnAsMeansOfNeighbours) {
  const std::vector<metrics::StepRecord> records = falling(3000);
  const nlohmann::json found = shown(loss_curves_svg({{"", records}}, "long"));
  const auto& training = found.at("training").at(0);
  ASSERT_EQ(training.size(), 1000u);
  for (const size_t i : {100u, 500u, 999u}) {
    const double mean = (*records[3 * i].loss + *records[3 * i + 1].loss + *records[3 * i + 2].loss) / 3;
    EXPECT_NEAR(training[i][1].get<double>(), mean, 0.01) << i;
    EXPECT_NEAR(training[i][0].get<double>(), static_cast<double>(records[3 * i + 1].step), 0.3) << i;
  }
}

TEST(LossCurve, LossesThatAreNoNumbersAreLeftOut) {
  std::vector<metrics::StepRecord> records = falling(20);
  records[4].loss = NAN;
  records[5].loss = INFINITY;
  records[6].loss.reset();
  EXPECT_EQ(shown(loss_curves_svg({{"one", records}, {"two", falling(20)}}, "t")).at("training").at(0).size(), 17u);
}

TEST(LossCurve, WithoutALossThereIsNoPicture) {
  const Error error = test::error_of([] { loss_curves_svg({{"", {}}}, "t"); });
  EXPECT_EQ(error.code(), ExitCode::kUser);
}

}  // namespace
}  // namespace hearth::report
