// SPDX-License-Identifier: Apache-2.0
// A few steps of every layout. layouts_slow_test.cpp has the long curves.
#include "layouts.h"
#include "support/gpu.h"

namespace hearth::test {
namespace {

TEST_F(Layouts, InFloat64TrainEveryTaskAsOneRankDoes) {
  for (const Task task : kTasks) {
    const config::RunConfig run = run_of(task, DType::kFloat64, 3, "one");
    const Result one = result_of(run);
    for (const Layout& layout : kLayouts) {
      SCOPED_TRACE(fmt::format("{} {}", name_of(task), layout.name));
      const Result several = trained(run, layout);
      expect_near(several, one, 1e-9);
      expect_tensors_near(several, one, 1e-7);  // Adam divides by the square root of small second moments
    }
  }
}

// Numbers of ranks that the other layouts' windows and batch do not have.
TEST_F(Layouts, OfThreeSixAndEightRanksTrainEveryTaskAsOneRankDoes) {
  const Layout layouts[] = {
      {"dp3", {.data_parallel_shard_degree = 3}},
      {"dp3_zero3", {.data_parallel_shard_degree = 3, .zero_stage = 3}},
      {"dp8", {.data_parallel_shard_degree = 8}},
      {"hsdp2x4_zero2", {.data_parallel_replicate_degree = 2, .data_parallel_shard_degree = 4, .zero_stage = 2}},
      {"dp3_pp2", {.data_parallel_shard_degree = 3, .pipeline_parallel_degree = 2}},
      {"cp3", {.context_parallel_degree = 3}},  // three does not divide the heads: each gathers all keys
      {"cp6_pp2", {.context_parallel_degree = 6, .pipeline_parallel_degree = 2}}};
  for (const Task task : kTasks) {
    config::RunConfig run = run_of(task, DType::kFloat64, 2, "wide");
    run.training.seq_len = 24;
    run.training.local_batch_size = 1;
    run.training.global_batch_size = 24;
    const Result one = result_of(run);
    for (const Layout& layout : layouts) {
      SCOPED_TRACE(fmt::format("{} {}", name_of(task), layout.name));
      const Result several = trained(run, layout);
      expect_near(several, one, 1e-9);
      expect_tensors_near(several, one, 1e-7);
    }
  }
}

TEST_F(Layouts, InFloat32AndBfloat16StayNearOneRank) {
  for (const Task task : kTasks) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      const config::RunConfig run = run_of(task, dtype, 2, "one");
      const Result one = result_of(run);
      for (const Layout& layout : kLayouts) {
        SCOPED_TRACE(fmt::format("{} {} {}", name_of(task), dtype_name(dtype), layout.name));
        Result several = trained(run, layout), first = one;
        // Adam's first update has the size of the rate, whatever the gradient's. Where rounding changes the sign of a
        // small gradient, the second step begins with other weights.
        expect_near(several, one, dtype == DType::kFloat32 ? 1e-5 : 0.05);
        for (Result* result : {&several, &first})
          std::erase_if(result->records, [](const metrics::StepRecord& record) { return record.step > 1; });
        expect_near(several, first, dtype == DType::kFloat32 ? 1e-5 : 0.02);
      }
    }
  }
}

// Products in float8, by the kernels compiled for the host, which are slow. Each row of a rank's part has its own
// scale, so parts are rounded differently from whole rows.
TEST_F(Layouts, MultiplyInFloat8AndStayNearOneRank) {
  const test::EmulatedGpu gpu;
  config::RunConfig run = run_of(Task::kCausal, DType::kBFloat16, 2, "float8");
  run.model.n_layers = 2;
  run.training.seq_len = 16;
  norm_heads(run);
  run.training.global_batch_size = 4;
  const Result wide = result_of(run);
  run.job.dump_folder += "-narrow";
  run.numerics.fp8 = true;
  run.numerics.fp8_recipe = config::Fp8Recipe::kRowwise;
  const Result one = result_of(run);
  EXPECT_NE(*one.records.back().loss, *wide.records.back().loss) << "float8 was not used";
  for (const std::string_view name : {"dp2_zero3", "tp2_dp2_zero2", "cp2", "pp2"}) {
    SCOPED_TRACE(name);
    const auto layout = std::find_if(kLayouts.begin(), kLayouts.end(), [&](const Layout& l) { return l.name == name; });
    expect_near(trained(run, *layout), one, 0.03);
  }
}

// Muon's matrices are orthogonalised whole, whichever ranks have their parts.
TEST_F(Layouts, TrainWithMuonAsOneRankDoes) {
  for (const Task task : {Task::kCausal, Task::kExperts}) {  // a router's matrix is not cut
    config::RunConfig run = run_of(task, DType::kFloat64, 3, "muon");
    run.optimizer.name = config::OptimizerName::kMuon;
    norm_heads(run);
    const Result one = result_of(run);
    for (const Layout& layout : kLayouts) {
      SCOPED_TRACE(fmt::format("{} {}", name_of(task), layout.name));
      const Result several = trained(run, layout);
      expect_near(several, one, 1e-9);
      expect_tensors_near(several, one, 1e-7);
    }
  }
}

// Random rounding draws for an element by its place in the whole parameter.
TEST_F(Layouts, RoundWeightsInBfloat16AtRandomAndStayNearOneRank) {
  config::RunConfig run = run_of(Task::kCausal, DType::kBFloat16, 3, "rounding");
  run.training.dtype = DType::kBFloat16;
  run.numerics.stochastic_rounding = true;
  norm_heads(run);
  const Result one = result_of(run);
  for (const Layout& layout : kLayouts) {
    SCOPED_TRACE(layout.name);
    expect_near(trained(run, layout), one, 0.02);
  }
}

TEST_F(Layouts, ChangeAtEachResumeAndTheCurveStaysThatOfOneRank) {
  expect_changes_as_one_rank(run_of(Task::kCausal, DType::kFloat64, 1, "chain"), kLayouts);
}

// A branch with learning rate zero writes the values that it read.
TEST_F(Layouts, ReadTheCheckpointsOfEachOtherToTheBit) {
  for (size_t index = 0; index < kLayouts.size(); ++index) {
    const Layout& writer = kLayouts[index];
    config::RunConfig run = run_of(Task::kCausal, DType::kFloat32, 1, "from");
    run.job.dump_folder += writer.name;
    norm_heads(run);
    run.parallelism = writer.ranks;
    run.training.threads = 0;
    run.validation.freq = 0;
    const Result written = result_of(run);
    for (const size_t distance : {1, 6}) {
      const Layout& reader = kLayouts[(index + distance) % kLayouts.size()];
      config::RunConfig branch = run;
      branch.job.dump_folder += std::string("-to-") + reader.name;
      branch.parallelism = reader.ranks;
      branch.checkpoint.initial_load_path = step_of(run, 1).string();
      branch.optimizer.lr = 0;
      const auto read = result_of(branch).tensors;
      for (const auto& [name, bytes] : written.tensors) {
        if (!name.starts_with("optimizer.")) {
          EXPECT_EQ(read.at(name), bytes) << writer.name << " " << reader.name << " " << name;
        }
      }
    }
  }
}

}  // namespace
}  // namespace hearth::test
