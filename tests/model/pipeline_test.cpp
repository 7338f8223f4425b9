// SPDX-License-Identifier: Apache-2.0
// The run of a pipeline's schedule: it takes the time of the simulation, and each pass gets what the one before made.
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "comm/ranks.h"
#include "model/pipeline.h"
#include "plan/pipeline_simulation.h"
#include "support/simulated_time.h"

namespace hearth::model {
namespace {

using test::SimulatedTime;
using enum plan::PipelineSchedule;
using enum plan::ActionKind;

constexpr double kPassSeconds = 0.01;    // of simulated time; a whole backward takes two
constexpr double kTimeoutSeconds = 600;  // for a machine on which little real time is ours

// What a stage hands on: the number of stages before it, and the micro-batch. A gradient comes back negative.
double value_of(int64_t stage, int64_t micro_batch) { return static_cast<double>(100 * stage + micro_batch); }

// The simulated time from the start until the last rank ends.
double duration_of(const plan::Pipeline& pipeline) {
  SimulatedTime time;
  comm::run_ranks(pipeline.ranks, kTimeoutSeconds, [&](comm::Group& all) {
    std::vector<int64_t> everyone(static_cast<size_t>(all.size()));
    for (int64_t r = 0; r < all.size(); ++r) everyone[static_cast<size_t>(r)] = r;
    const auto group = all.split_apart(everyone);
    const plan::RankSchedule schedule = plan::rank_schedule(pipeline, all.rank(), plan::PipelinePass::kTraining);
    std::map<std::pair<int64_t, int64_t>, at::Tensor> inputs, outputs;  // by stage and slot
    for (const plan::PlacedAction& placed : schedule.actions)
      for (auto* tensors : {&inputs, &outputs})
        tensors->try_emplace({placed.action.stage, placed.slot}, at::empty({1000}, at::kDouble));
    const PipelineWork work{
        .compute =
            [&](const plan::PlacedAction& placed) {
              const plan::Action& action = placed.action;
              const std::pair key{static_cast<int64_t>(action.stage), placed.slot};
              const bool first = action.stage == 0, last = action.stage == pipeline.num_stages() - 1;
              const double here = value_of(action.stage, action.micro_batch);
              const auto pass = [&](const at::Tensor* from, double expected, double made) {
                if (from != nullptr) {
                  EXPECT_EQ(from->min().item<double>(), expected);
                  EXPECT_EQ(from->max().item<double>(), expected);
                }
                outputs.at(key).fill_(made);
              };
              time.spend(action.kind == kBackward ? 2 * kPassSeconds : kPassSeconds);
              if (action.kind == kForward)
                pass(first ? nullptr : &inputs.at(key), here, value_of(action.stage + 1, action.micro_batch));
              else if (action.kind != kWeightGradient)
                pass(last ? nullptr : &outputs.at(key), -here - 100, -here);
            },
        .transferred =
            [&](const plan::PlacedAction& placed) {
              const bool is_input = placed.action.kind == kRecvForward;
              return (is_input ? inputs : outputs).at({placed.action.stage, placed.slot});
            }};
    run_pipeline(pipeline, schedule, group.get(), work);
  });
  return time.now_s();
}

TEST(Pipeline, TakesTheTimeOfTheSimulation) {
  struct Case {
    plan::PipelineSchedule schedule;
    int64_t ranks, stages_per_rank, micro_batches;
  };
  for (const Case& c :
       {Case{kGPipe, 4, 1, 8}, Case{k1F1B, 4, 1, 8}, Case{k1F1B, 3, 1, 2}, Case{kInterleaved1F1B, 4, 2, 8},
        Case{kInterleavedZeroBubble, 4, 1, 8}, Case{kInterleavedZeroBubble, 2, 2, 6}}) {
    const plan::Pipeline pipeline{c.schedule, c.ranks, c.stages_per_rank, c.micro_batches};
    const plan::PipelineStep simulated = plan::simulate(
        pipeline, plan::with_transfers(pipeline, plan::compute_actions(pipeline)),
        plan::equal_times(pipeline, {kPassSeconds, kPassSeconds, kPassSeconds}), plan::TransferMode::kOverlapped);
    const double busy_s = 3 * kPassSeconds * static_cast<double>(c.stages_per_rank * c.micro_batches);
    EXPECT_NEAR(1 - busy_s / duration_of(pipeline), simulated.bubble, 1e-9)
        << config::name_of(c.schedule) << " " << c.ranks << " x " << c.stages_per_rank << ", " << c.micro_batches;
  }
}

}  // namespace
}  // namespace hearth::model
