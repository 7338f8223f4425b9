// SPDX-License-Identifier: Apache-2.0
// memory.margin, where it leaves nothing.
#include <gmock/gmock.h>

#include "config/load.h"
#include "plan/run_shape.h"
#include "support/errors.h"

namespace hearth::plan {
namespace {

using test::error_of;

TEST(Memory, AMarginThatLeavesNothingIsNamed) {
  config::LoadResult run = config::read_run({}, {"model.vocab_size=1000", "memory.margin=200GiB"});
  config::compute_on_gpu(run);
  const RunShape shape = run_shape(run.config, {});
  const Error error = error_of([&] { require_fits(memory_plan(run.config, shape, int64_t{80} << 30)); });
  EXPECT_THAT(error.message(), testing::HasSubstr("no memory is left for tensors"));
  EXPECT_THAT(error.message(), testing::HasSubstr("of 80.0 GiB"));
  EXPECT_THAT(error.why(), testing::HasSubstr("margin 200.0 GiB"));
  EXPECT_THAT(error.fix(), testing::HasSubstr("memory.margin"));
}

}  // namespace
}  // namespace hearth::plan
