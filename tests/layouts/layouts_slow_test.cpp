// SPDX-License-Identifier: Apache-2.0
// The whole table: 200 steps of every layout and task.
#include <algorithm>
#include <cmath>

#include "layouts.h"

namespace hearth::test {
namespace {

constexpr int64_t kSteps = 200;

// At the other tests' learning rate of 1e-2 a difference of rounding grows tenfold every twenty steps, on every layout.
// Norms of sublayers' outputs make gradients a hundred times larger: one rank with two sequences a micro-batch was 1e-6
// from one rank with one after 200 steps at 1e-3 (kSpikes).
config::RunConfig long_run(Task task, DType dtype) {
  config::RunConfig run = Layouts::run_of(task, dtype, kSteps, "one");
  run.optimizer.lr = task == Task::kMasked || task == Task::kSpikes ? 1e-4 : 1e-3;
  return run;
}

// float64 is the real proof: the layouts differ in the order of sums only.
TEST_F(Layouts, InFloat64AllStepsAreThoseOfOneRank) {
  for (const Task task : kTasks) {
    const config::RunConfig run = long_run(task, DType::kFloat64);
    const Result one = result_of(run);
    EXPECT_LT(*one.records.back().loss, 0.9 * *one.records[1].loss) << name_of(task);
    for (const Layout& layout : kLayouts) {
      SCOPED_TRACE(fmt::format("{} {}", name_of(task), layout.name));
      expect_near(trained(run, layout), one, 1e-9);
    }
  }
}

TEST_F(ExpertLayouts, InFloat64AllStepsAreThoseOfOneRank) {
  for (const bool by_five : {false, true}) {  // the number of data-parallel ranks
    config::RunConfig run = expert_run(DType::kFloat64, kSteps, by_five ? "apart-5" : "apart");
    run.optimizer.lr = 1e-3;
    run.training.global_batch_size = by_five ? 20 : 16;
    const Result one = result_of(run);
    EXPECT_LT(*one.records.back().loss, 0.9 * *one.records[1].loss);
    for (const Layout& layout : kExpertLayouts) {
      if (by_five != (layout.ranks.data_ranks() == 5)) continue;
      SCOPED_TRACE(layout.name);
      expect_near(trained(run, layout), one, 1e-9);
    }
  }
}

// Root mean square over all steps of a loss's relative distance.
double distance(const std::vector<metrics::StepRecord>& a, const std::vector<metrics::StepRecord>& b) {
  double sum = 0;
  int64_t count = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (!a[i].loss) continue;
    sum += std::pow(*a[i].loss / *b[i].loss - 1, 2);
    ++count;
  }
  return std::sqrt(sum / static_cast<double>(count));
}

// Rounding differences grow from step to step, by an amount that depends on the processor. So float64 is the measure: a
// layout in float32 is no farther from it than a few times the distance of one rank in float32.
TEST_F(Layouts, InFloat32AllStepsAreAsNearToFloat64AsThoseOfOneRank) {
  for (const Task task : kTasks) {
    config::RunConfig run = long_run(task, DType::kFloat32);  // kMasked differs by more than its type
    run.training.dtype = DType::kFloat64;
    run.job.dump_folder += "-exact";
    const Result exact = result_of(run);
    run = long_run(task, DType::kFloat32);
    const Result one = result_of(run);
    const double rounding = distance(one.records, exact.records);
    EXPECT_LT(rounding, 1e-4) << name_of(task);
    for (const Layout& layout : kLayouts) {
      SCOPED_TRACE(fmt::format("{} {}", name_of(task), layout.name));
      const Result several = trained(run, layout);
      expect_losses_near(several, one, 20, 1e-6);
      EXPECT_LT(distance(several.records, exact.records), 4 * rounding);
    }
  }
}

}  // namespace
}  // namespace hearth::test
