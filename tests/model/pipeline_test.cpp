// The run of a pipeline's schedule: who waits for whom is as in the simulation.
#include "model/pipeline_passes.h"

namespace hearth::model {
namespace {

TEST(Pipeline, RanksWaitForEachOtherAsInTheSimulation) {
  constexpr Seconds kPass{0.01};
  for (const PipelineCase& c : kPipelineCases) {
    const plan::Pipeline pipeline{c.schedule, c.ranks, c.stages_per_rank, c.micro_batches};
    const double busy_s = 3 * kPass.count() * static_cast<double>(c.stages_per_rank * c.micro_batches);
    EXPECT_NEAR(1 - busy_s / run_passes(pipeline, kPass, /*sleeps=*/false).counted_s,
                simulated_step(pipeline, kPass).bubble, 1e-9)
        << config::name_of(c.schedule) << " " << c.ranks << " x " << c.stages_per_rank << ", " << c.micro_batches;
  }
}

}  // namespace
}  // namespace hearth::model
