// The whole table: 200 steps of every layout and task.
#include "layouts.h"

namespace hearth::test {
namespace {

constexpr int64_t kSteps = 200;

// At the other tests' learning rate of 1e-2 a difference of rounding grows tenfold every twenty steps, on every layout.
config::RunConfig long_run(Task task, DType dtype) {
  config::RunConfig run = Layouts::run_of(task, dtype, kSteps, "one");
  run.optimizer.lr = 1e-3;
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

TEST_F(Layouts, InFloat32StepsAreNearThoseOfOneRank) {
  for (const Task task : kTasks) {
    const config::RunConfig run = long_run(task, DType::kFloat32);
    const Result one = result_of(run);
    for (const Layout& layout : kLayouts) {
      SCOPED_TRACE(fmt::format("{} {}", name_of(task), layout.name));
      Result several = trained(run, layout);
      expect_losses_near(several, one, 20, 1e-6);
      expect_losses_near(several, one, kSteps, 1e-5);
    }
  }
}

}  // namespace
}  // namespace hearth::test
