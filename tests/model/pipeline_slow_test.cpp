// The time of a pipeline's run, with stages that sleep. It is slow because a busy machine wakes threads late.
#include "model/pipeline_passes.h"

namespace hearth::model {
namespace {

TEST(Pipeline, ARunTakesTheTimeOfTheSimulation) {
  constexpr Seconds kPass{0.01};
  for (const PipelineCase& c : kPipelineCases) {
    const plan::Pipeline pipeline{c.schedule, c.ranks, c.stages_per_rank, c.micro_batches};
    const double simulated = simulated_step(pipeline, kPass).bubble;
    double best = 1;
    for (int attempt = 0; attempt < 10 && best > simulated + 0.05; ++attempt) {
      const double busy_s = 3 * kPass.count() * static_cast<double>(c.stages_per_rank * c.micro_batches);
      best = std::min(best, 1 - busy_s / run_passes(pipeline, kPass, /*sleeps=*/true).wall_s);
    }
    EXPECT_NEAR(best, simulated, 0.05) << config::name_of(c.schedule) << " " << c.ranks << " x " << c.stages_per_rank
                                       << ", " << c.micro_batches;
  }
}

}  // namespace
}  // namespace hearth::model
