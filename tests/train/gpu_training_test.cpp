// SPDX-License-Identifier: Apache-2.0
// A training on a GPU compared with the same training on the CPU: curves, guard, checkpoints in both directions.
#include <gmock/gmock.h>
#include <cmath>

#include "infer/eval.h"
#include "ops/float8.h"
#include "ops/tensor.h"
#include "report/trace.h"
#include "support/gpu.h"
#include "tiny_run.h"

namespace hearth::train {
namespace {

using testing::HasSubstr;

// The kernels compiled for the host take a tenth of a second a step, even for a tiny model.
constexpr int64_t kGpuSteps = 6;

class TrainingOnGpu : public testing::TestWithParam<test::GpuKind> {
 protected:
  TrainingOnGpu() { build_tiny_data(scratch); }

  config::RunConfig config_of(const std::string& folder, const std::string& device) {
    config::RunConfig c = tiny_config(scratch);
    c.job.dump_folder = folder;
    c.training.device = *config::find_choice<config::DeviceKind>(device);
    c.training.seq_len = 16;
    c.training.global_batch_size = 4;
    c.training.steps = kGpuSteps;
    c.lr_scheduler.warmup_steps = 1;
    c.checkpoint.interval = 2;
    return c;
  }
  std::vector<metrics::StepRecord> on_gpu(config::RunConfig c) {
    const test::TestGpu gpu(GetParam());
    c.training.device = *config::find_choice<config::DeviceKind>(gpu.name());
    return train(c);
  }

  // The same run on the CPU and on the GPU, into folders of these names.
  struct Both {
    std::vector<metrics::StepRecord> cpu, gpu;
  };
  Both on_both(const config::RunConfig& c) {
    config::RunConfig there = c;
    there.job.dump_folder = "gpu";
    return {train(c), on_gpu(there)};
  }

  test::ScratchFolder scratch;
};

double largest_difference(const std::vector<metrics::StepRecord>& a, const std::vector<metrics::StepRecord>& b) {
  double largest = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    largest = std::max(largest, std::abs(*a[i].loss / *b[i].loss - 1));
    largest = std::max(largest, std::abs(*a[i].grad_norm / *b[i].grad_norm - 1));
  }
  return largest;
}

// Rounding errors grow along a curve: float32's 6e-8 becomes a thousand times as large in this many steps.
TEST_P(TrainingOnGpu, HasTheCurveOfTheCpu) {
  HEARTH_NEEDS_GPU(GetParam());
  config::RunConfig c = config_of("cpu", "cpu");
  const bool real = GetParam() == test::GpuKind::kReal;
  c.training.steps = real ? 200 : kGpuSteps;
  c.checkpoint.interval = 0;
  const auto [cpu, gpu] = on_both(c);
  ASSERT_EQ(gpu.size(), cpu.size());
  EXPECT_LT(largest_difference(gpu, cpu), real ? 1e-2 : 1e-4);
  EXPECT_LT(*gpu.back().loss, 0.9 * *gpu.front().loss);
}

TEST_P(TrainingOnGpu, GoesOnFromACheckpointOfTheCpuAndBack) {
  HEARTH_NEEDS_GPU(GetParam());
  const auto whole = train(config_of("whole", "cpu"));
  config::RunConfig parts = config_of("parts", "cpu");
  parts.training.steps = 2;
  train(parts);
  parts.training.steps = 4;
  on_gpu(parts);
  parts.training.device = config::DeviceKind::kCpu;
  parts.training.steps = kGpuSteps;
  const auto records = train(parts);
  ASSERT_EQ(records.size(), static_cast<size_t>(kGpuSteps));
  EXPECT_LT(largest_difference(records, whole), 1e-4);
}

TEST_P(TrainingOnGpu, TheSameRunTwiceIsTheSameToTheBitAndSoIsAnInterruptedOne) {
  HEARTH_NEEDS_GPU(GetParam());
  const auto once = on_gpu(config_of("once", "cpu"));
  const auto again = on_gpu(config_of("again", "cpu"));
  expect_same_training(once, again);
  config::RunConfig parts = config_of("parts", "cpu");
  for (const int64_t steps : {int64_t{2}, kGpuSteps}) {
    parts.training.steps = steps;
    on_gpu(parts);
  }
  expect_same_training(metrics::read_metrics(parts.run_folder() / "metrics.jsonl"), once);
}

// Gradients accumulate on the device. Steps that the policy skips are skipped there.
TEST_P(TrainingOnGpu, LeavesOutAStepThatIsASpikeAndSaysSo) {
  HEARTH_NEEDS_GPU(GetParam());
  config::RunConfig c = config_of("cpu", "cpu");
  c.numerics.spike_policy = config::Policy::kSkip;
  c.numerics.spike_window = 4;
  c.numerics.spike_deviations = 0.5;
  const auto [cpu, gpu] = on_both(c);
  ASSERT_EQ(gpu.size(), cpu.size());
  int64_t skipped = 0;
  for (size_t i = 0; i < gpu.size(); ++i) {
    EXPECT_EQ(gpu[i].skipped, cpu[i].skipped) << "step " << i + 1;
    if (!gpu[i].skipped.empty()) ++skipped;
  }
  EXPECT_GE(skipped, 1);
  EXPECT_LT(largest_difference(gpu, cpu), 1e-3);
}

// The step after a spike has already begun when the spike is judged: it is held, and repeated with other data.
TEST_P(TrainingOnGpu, GoesBackFromASpike) {
  HEARTH_NEEDS_GPU(GetParam());
  config::RunConfig c = config_of("cpu", "cpu");
  c.training.steps = 7;
  c.numerics.spike_policy = config::Policy::kRewind;
  c.numerics.spike_window = 2;
  c.numerics.spike_deviations = 4;
  c.numerics.rewind_limit = 100;
  const auto [cpu, gpu] = on_both(c);
  ASSERT_EQ(gpu.size(), cpu.size());
  const auto rewinds = [&c](const char* folder) {
    c.job.dump_folder = folder;
    return health_at(step_of(c, 7)).rewinds;
  };
  EXPECT_GE(rewinds("cpu"), 1);
  EXPECT_EQ(rewinds("gpu"), rewinds("cpu"));
  EXPECT_LT(largest_difference(gpu, cpu), 1e-3);
}

TEST_P(TrainingOnGpu, EvaluatesACheckpointOfTheCpu) {
  HEARTH_NEEDS_GPU(GetParam());
  config::RunConfig c = config_of("cpu", "cpu");
  c.training.steps = 1;
  train(c);
  config::EvalOptions options;
  options.checkpoint = c.run_folder();
  build_tiny_data(scratch / "few", 60);
  options.data = {(scratch / "few" / "data").string()};
  const double cpu = infer::eval_checkpoint(options).front().validation.loss();
  const test::TestGpu gpu(GetParam());
  options.device = gpu.name();
  EXPECT_NEAR(infer::eval_checkpoint(options).front().validation.loss() / cpu, 1, 1e-5);
}

// Kernels of LibTorch and ours, on the time axis of the host's spans.
TEST_P(TrainingOnGpu, ATraceShowsWhatTheGpuDidWithinTheSteps) {
  HEARTH_NEEDS_GPU(GetParam());
  config::RunConfig c = config_of("run", "cpu");
  c.profiling.enable_profiling = true;
  c.profiling.profile_freq = kGpuSteps;
  c.profiling.profiler_active = 2;
  on_gpu(c);
  const report::Trace trace = report::read_trace(report::trace_files(c.run_folder()).front());
  double begin_us = INFINITY, end_us = 0;
  int64_t updates = 0, products = 0, enqueued = 0;
  for (const report::TraceEvent& event : trace.events) {
    if (event.category != "step") continue;
    begin_us = std::min(begin_us, event.begin_us);
    end_us = std::max(end_us, event.end_us);
  }
  for (const report::TraceEvent& event : trace.events) {
    if (event.name == "adamw") ++enqueued;
    if (event.category != "kernel") continue;
    EXPECT_THAT(trace.tracks[static_cast<size_t>(event.track)], HasSubstr("stream"));
    EXPECT_GT(event.begin_us, begin_us - 1000) << event.name;  // the two clocks agree to a millisecond
    EXPECT_LT(event.end_us, end_us + 1000) << event.name;
    if (event.name.find("adamw_kernel") != std::string::npos) ++updates;
    if (event.name.find("gemm") != std::string::npos || event.name.find("nvjet") != std::string::npos) ++products;
  }
  const bool real = GetParam() == test::GpuKind::kReal;
  EXPECT_GT(enqueued, 0);
  if (real) {
    EXPECT_GE(updates, enqueued);  // and some of the step before, which the GPU had not finished
  } else {
    EXPECT_EQ(updates, 0);
  }
  EXPECT_EQ(products > 0, real);
}

HEARTH_ON_EACH_GPU(TrainingOnGpu);

TEST(Device, AGpuThatIsNotThereIsAnErrorBesideOthers) {
  if (ops::why_no_gpu().empty()) GTEST_SKIP() << "there is a GPU";
  config::RunConfig c = tiny_config("/nowhere");
  c.training.device = config::DeviceKind::kCuda;
  const Error error = error_of([&] { run_training(c, {}); });
  EXPECT_EQ(error.code(), ExitCode::kUser);  // not the code of the GPU's error alone
  for (const char* what : {"training.device = \"cpu\"", "/nowhere/data holds no dataset"})
    EXPECT_THAT(error.message(), HasSubstr(what)) << error.what();
}

}  // namespace
}  // namespace hearth::train
