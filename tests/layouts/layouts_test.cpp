// A few steps of every layout. layouts_slow_test.cpp has the long curves.
#include "layouts.h"

namespace hearth::test {
namespace {

TEST_F(Layouts, InFloat64TrainEveryTaskAsOneRankDoes) {
  for (const Task task : {Task::kCausal, Task::kMasked, Task::kSpikes}) {
    const config::RunConfig run = run_of(task, DType::kFloat64, /*tied=*/task == Task::kMasked, 3, "one");
    const Result one = result_of(run);
    for (const Layout& layout : kLayouts) {
      SCOPED_TRACE(fmt::format("{} {}", name_of(task), layout.name));
      const Result several = trained(run, layout);
      expect_near(several, one, 1e-9);
      expect_tensors_near(several, one, 1e-7);  // Adam divides by the square root of small second moments
    }
  }
}

TEST_F(Layouts, InFloat32AndBfloat16StayNearOneRank) {
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const config::RunConfig run = run_of(Task::kCausal, dtype, /*tied=*/false, 3, "one");
    const Result one = result_of(run);
    for (const Layout& layout : kLayouts) {
      SCOPED_TRACE(fmt::format("{} {}", dtype_name(dtype), layout.name));
      expect_near(trained(run, layout), one, dtype == DType::kFloat32 ? 1e-5 : 0.02);
    }
  }
}

}  // namespace
}  // namespace hearth::test
