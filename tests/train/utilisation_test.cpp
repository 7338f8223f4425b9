// SPDX-License-Identifier: Apache-2.0
// mfu of a training whose matrix products seemed slower, at the start, than they are.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <variant>

#include "comm/ranks.h"
#include "config/load.h"
#include "metrics/console.h"
#include "run/run.h"
#include "run/start.h"
#include "train/tiny_run.h"

namespace hearth::train {
namespace {

using testing::HasSubstr;

struct Utilisation : TinyData {
  // Trains as if the start had timed `rate` FLOP/s. Returns what the console had.
  std::string train_with_rate(const config::RunConfig& c, double rate) {
    ::testing::internal::CaptureStdout();
    comm::run_ranks(c.parallelism.ranks(), 60, [&](comm::Group& group) {
      run::Run run = run::open_run(config::without_file(c), group.control());
      if (group.rank() == 0) run.throughput.peak_flops = rate;
      run::Start start = run::find_start(run, group.control());
      RankLog log(run.folder.path() / "logs", group.rank());
      const auto end = train_from(run, start, group, log, metrics::Console::Style::kLines);
      ASSERT_TRUE(std::holds_alternative<ExitCode>(end));
      EXPECT_EQ(std::get<ExitCode>(end), ExitCode::kDone);
    });
    std::fflush(stdout);
    return ::testing::internal::GetCapturedStdout();
  }
};

TEST_F(Utilisation, NoShareIsAboveOneHoweverSlowTheProductsSeemed) {
  for (const int64_t ranks : {1, 2}) {
    config::RunConfig c = tiny_config(scratch);
    c.job.dump_folder = fmt::format("run-{}", ranks);
    c.parallelism.data_parallel_shard_degree = ranks;
    c.metrics.log_freq = 1;
    const std::string output = train_with_rate(c, 1);
    EXPECT_THAT(output, HasSubstr("mfu is the share of ")) << output;
    EXPECT_THAT(output, HasSubstr("/s from here on: step 1 was faster than the matrix products")) << output;
    int64_t shown = 0;
    const std::regex share("mfu ([0-9.]+)%");
    for (std::sregex_iterator it(output.begin(), output.end(), share), end; it != end; ++it, ++shown)
      EXPECT_LE(std::stod((*it)[1]), 100) << output;
    EXPECT_EQ(shown, c.training.steps) << output;
    int64_t recorded = 0;
    for (const metrics::StepRecord& record : metrics::read_metrics(c.run_folder() / "metrics.jsonl")) {
      if (record.step == 0) continue;  // only validates
      EXPECT_GT(record.mfu, 0) << "step " << record.step;
      EXPECT_LE(record.mfu, 1) << "step " << record.step;
      ++recorded;
    }
    EXPECT_EQ(recorded, c.training.steps);
  }
}

TEST_F(Utilisation, ARateThatHoldsStaysAndNothingIsSaid) {
  const config::RunConfig c = tiny_config(scratch);
  EXPECT_THAT(train_with_rate(c, 1e18), testing::Not(HasSubstr("mfu is the share")));
  for (const metrics::StepRecord& record : metrics::read_metrics(c.run_folder() / "metrics.jsonl"))
    EXPECT_LT(record.mfu, 1e-3);
}

}  // namespace
}  // namespace hearth::train
