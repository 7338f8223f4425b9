// The run of a pipeline's schedule, with stages that sleep instead of computing: its time is that of the simulation.
#include "model/pipeline.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <thread>

#include "comm/ranks.h"
#include "plan/pipeline_simulation.h"

namespace hearth::model {
namespace {

using Seconds = std::chrono::duration<double>;
using enum plan::PipelineSchedule;
using enum plan::ActionKind;

struct PipelineCase {
  plan::PipelineSchedule schedule;
  int64_t ranks, stages_per_rank, micro_batches;
};

constexpr PipelineCase kPipelineCases[] = {{kGPipe, 4, 1, 8},
                                           {k1F1B, 4, 1, 8},
                                           {k1F1B, 3, 1, 2},
                                           {kInterleaved1F1B, 4, 2, 8},
                                           {kInterleavedZeroBubble, 4, 1, 8},
                                           {kInterleavedZeroBubble, 2, 2, 6}};

// What a stage hands on: the number of stages before it, and the micro-batch. A gradient comes back negative.
double value_of(int64_t stage, int64_t micro_batch) { return static_cast<double>(100 * stage + micro_batch); }

double run_for_s(const plan::Pipeline& pipeline, Seconds of_pass) {
  std::mutex mutex;
  double longest_s = 0;
  comm::run_ranks(pipeline.ranks, 60, [&](comm::Group& all) {
    std::vector<int64_t> everyone(static_cast<size_t>(all.size()));
    for (int64_t r = 0; r < all.size(); ++r) everyone[static_cast<size_t>(r)] = r;
    const auto group = all.split_apart(everyone);
    const plan::RankSchedule schedule = plan::rank_schedule(pipeline, all.rank(), plan::PipelinePass::kTraining);
    std::map<std::pair<int64_t, int64_t>, at::Tensor> inputs, outputs;  // by stage and slot
    for (const plan::PlacedAction& placed : schedule.actions)
      for (auto* tensors : {&inputs, &outputs})
        tensors->try_emplace({placed.action.stage, placed.slot}, at::empty({1000}, at::kDouble));
    const PipelineWork work{.compute =
                                [&](const plan::PlacedAction& placed) {
                                  const plan::Action& action = placed.action;
                                  const std::pair key{static_cast<int64_t>(action.stage), placed.slot};
                                  const bool first = action.stage == 0,
                                             last = action.stage == pipeline.num_stages() - 1;
                                  const double here = value_of(action.stage, action.micro_batch);
                                  std::this_thread::sleep_for(action.kind == kBackward ? 2 * of_pass : of_pass);
                                  if (action.kind == kForward) {
                                    const double got = first ? here : inputs.at(key)[999].item<double>();
                                    EXPECT_EQ(got, here);
                                    outputs.at(key).fill_(value_of(action.stage + 1, action.micro_batch));
                                  } else if (action.kind != kWeightGradient) {
                                    const double got = last ? -here - 100 : outputs.at(key)[999].item<double>();
                                    EXPECT_EQ(got, -here - 100);
                                    outputs.at(key).fill_(-here);
                                  }
                                },
                            .transferred =
                                [&](const plan::PlacedAction& placed) {
                                  const bool is_input = placed.action.kind == kRecvForward;
                                  return (is_input ? inputs : outputs).at({placed.action.stage, placed.slot});
                                }};
    all.control().barrier("the start");
    const auto begin = std::chrono::steady_clock::now();
    run_pipeline(pipeline, schedule, group.get(), work);
    const double s = Seconds(std::chrono::steady_clock::now() - begin).count();
    const std::lock_guard lock(mutex);
    longest_s = std::max(longest_s, s);
  });
  return longest_s;
}

TEST(Pipeline, RanksWaitAsLongAsTheSimulationSays) {
  constexpr Seconds kPass{0.01};
  for (const PipelineCase& c : kPipelineCases) {
    const plan::Pipeline pipeline{c.schedule, c.ranks, c.stages_per_rank, c.micro_batches};
    const plan::PipelineStep simulated = plan::simulate(
        pipeline, plan::with_transfers(pipeline, plan::compute_actions(pipeline)),
        plan::equal_times(pipeline, {kPass.count(), kPass.count(), kPass.count()}), plan::Transfers::kOverlapped);
    double best = 1;  // this machine has other work, too
    for (int attempt = 0; attempt < 10 && best > simulated.bubble + 0.05; ++attempt) {
      const double busy_s = 3 * kPass.count() * static_cast<double>(c.stages_per_rank * c.micro_batches);
      best = std::min(best, 1 - busy_s / run_for_s(pipeline, kPass));
    }
    EXPECT_NEAR(best, simulated.bubble, 0.05)
        << config::name_of(c.schedule) << " " << c.ranks << " x " << c.stages_per_rank << ", " << c.micro_batches;
  }
}

}  // namespace
}  // namespace hearth::model
