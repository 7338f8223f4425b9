// The run of a pipeline's schedule, with stages that take a given time and compute nothing.
#pragma once

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <mutex>
#include <thread>

#include "comm/ranks.h"
#include "model/pipeline.h"
#include "plan/pipeline_simulation.h"

namespace hearth::model {

using Seconds = std::chrono::duration<double>;
using enum plan::PipelineSchedule;
using enum plan::ActionKind;

struct PipelineCase {
  plan::PipelineSchedule schedule;
  int64_t ranks, stages_per_rank, micro_batches;
};

inline constexpr PipelineCase kPipelineCases[] = {{kGPipe, 4, 1, 8},
                                                  {k1F1B, 4, 1, 8},
                                                  {k1F1B, 3, 1, 2},
                                                  {kInterleaved1F1B, 4, 2, 8},
                                                  {kInterleavedZeroBubble, 4, 1, 8},
                                                  {kInterleavedZeroBubble, 2, 2, 6}};

// What a stage hands on: the number of stages before it, and the micro-batch. A gradient comes back negative.
inline double value_of(int64_t stage, int64_t micro_batch) { return static_cast<double>(100 * stage + micro_batch); }

// Where a tensor has its sender's clock, and a value.
inline constexpr int64_t kClock = 0, kValue = 999;

// From the start until the last rank ends.
struct PipelineTime {
  double wall_s = 0;
  // By the ranks' own clocks: a pass adds its time, and begins no earlier than the pass that made its input ended.
  double counted_s = 0;
};

// With `sleeps`, each pass takes its time.
inline PipelineTime run_passes(const plan::Pipeline& pipeline, Seconds of_pass, bool sleeps) {
  std::mutex mutex;
  PipelineTime longest;
  comm::run_ranks(pipeline.ranks, 60, [&](comm::Group& all) {
    std::vector<int64_t> everyone(static_cast<size_t>(all.size()));
    for (int64_t r = 0; r < all.size(); ++r) everyone[static_cast<size_t>(r)] = r;
    const auto group = all.split_apart(everyone);
    const plan::RankSchedule schedule = plan::rank_schedule(pipeline, all.rank(), plan::PipelinePass::kTraining);
    std::map<std::pair<int64_t, int64_t>, at::Tensor> inputs, outputs;  // by stage and slot
    for (const plan::PlacedAction& placed : schedule.actions)
      for (auto* tensors : {&inputs, &outputs})
        tensors->try_emplace({placed.action.stage, placed.slot}, at::empty({1000}, at::kDouble));
    double counted_s = 0;
    const PipelineWork work{
        .compute =
            [&](const plan::PlacedAction& placed) {
              const plan::Action& action = placed.action;
              const std::pair key{static_cast<int64_t>(action.stage), placed.slot};
              const bool first = action.stage == 0, last = action.stage == pipeline.num_stages() - 1;
              const double here = value_of(action.stage, action.micro_batch);
              const Seconds takes = action.kind == kBackward ? 2 * of_pass : of_pass;
              if (sleeps) std::this_thread::sleep_for(takes);
              const auto pass = [&](at::Tensor* from, double expected, double made) {
                if (from != nullptr) {
                  EXPECT_EQ((*from)[kValue].item<double>(), expected);
                  counted_s = std::max(counted_s, (*from)[kClock].item<double>());
                }
                counted_s += takes.count();
                outputs.at(key).fill_(made);
                outputs.at(key)[kClock] = counted_s;
              };
              if (action.kind == kWeightGradient)
                counted_s += takes.count();
              else if (action.kind == kForward)
                pass(first ? nullptr : &inputs.at(key), here, value_of(action.stage + 1, action.micro_batch));
              else
                pass(last ? nullptr : &outputs.at(key), -here - 100, -here);
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
    longest.wall_s = std::max(longest.wall_s, s);
    longest.counted_s = std::max(longest.counted_s, counted_s);
  });
  return longest;
}

inline plan::PipelineStep simulated_step(const plan::Pipeline& pipeline, Seconds of_pass) {
  return plan::simulate(pipeline, plan::with_transfers(pipeline, plan::compute_actions(pipeline)),
                        plan::equal_times(pipeline, {of_pass.count(), of_pass.count(), of_pass.count()}),
                        plan::Transfers::kOverlapped);
}

}  // namespace hearth::model
