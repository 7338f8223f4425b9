// SPDX-License-Identifier: Apache-2.0
#include "plan/pipeline_schedule.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "base/error.h"

namespace hearth::plan {
namespace {

constexpr std::array<std::string_view, 8> kActionNames = {"F", "B", "I", "W", "SEND_F", "RECV_F", "SEND_B", "RECV_B"};

struct LocalStep {
  int64_t local_stage;
  int32_t micro_batch;
};

// The order in which each rank runs its forwards. Backwards have the same order, with the last stage first.
std::vector<LocalStep> steps_in_rounds(const Pipeline& p) {
  const int64_t rounds = std::max(int64_t{1}, p.micro_batches / p.ranks);
  std::vector<LocalStep> steps;
  steps.reserve(static_cast<size_t>(p.stages_per_rank * p.micro_batches));
  for (int64_t round = 0, begin = 0; round < rounds; ++round) {
    const int64_t end = begin + p.micro_batches / rounds + (round < p.micro_batches % rounds ? 1 : 0);
    for (int64_t stage = 0; stage < p.stages_per_rank; ++stage)
      for (int64_t micro_batch = begin; micro_batch < end; ++micro_batch)
        steps.push_back({stage, static_cast<int32_t>(micro_batch)});
    begin = end;
  }
  return steps;
}

// Forwards that a rank runs before its first backward, less the one directly before it.
int64_t num_warmup_forwards(const Pipeline& p, int64_t rank) {
  const int64_t all = p.stages_per_rank * p.micro_batches;
  if (p.schedule == PipelineSchedule::kGPipe) return all;
  const int64_t rounds = std::max(int64_t{1}, p.micro_batches / p.ranks);
  const int64_t first_round = (p.micro_batches + rounds - 1) / rounds;
  // An output takes a step to the last rank and a gradient one back. With several stages per rank, the rank fills both
  // with forwards. With one stage, and with the shorter backward of a zero bubble, half as many are enough.
  const int64_t per_rank = p.schedule == PipelineSchedule::kInterleaved1F1B ? 2 : 1;
  return std::min(all, (p.stages_per_rank - 1) * first_round + per_rank * (p.ranks - 1 - rank));
}

RankActions actions_of(const Pipeline& p, int64_t rank, const std::vector<LocalStep>& steps) {
  const auto stage = [&](int64_t local_stage) { return static_cast<int32_t>(local_stage * p.ranks + rank); };
  const auto backward_stage = [&](const LocalStep& s) { return stage(p.stages_per_rank - 1 - s.local_stage); };
  const bool has_halves = p.schedule == PipelineSchedule::kInterleavedZeroBubble;
  const auto backward = has_halves ? ActionKind::kInputGradient : ActionKind::kBackward;
  const size_t warmup = static_cast<size_t>(num_warmup_forwards(p, rank));
  RankActions actions;
  actions.reserve(steps.size() * (has_halves ? 3 : 2));
  size_t weight_gradients = 0;
  const auto weight_gradient = [&] {
    const LocalStep& s = steps[weight_gradients++];
    actions.push_back({ActionKind::kWeightGradient, backward_stage(s), s.micro_batch});
  };
  for (size_t i = 0; i < steps.size() + warmup; ++i) {
    if (i < steps.size()) actions.push_back({ActionKind::kForward, stage(steps[i].local_stage), steps[i].micro_batch});
    if (i < warmup) continue;
    const size_t done = i - warmup;
    actions.push_back({backward, backward_stage(steps[done]), steps[done].micro_batch});
    // A rank leaves as many for the end as it has predecessors. So each rank holds as many activations as the first.
    if (has_halves && done >= static_cast<size_t>(rank)) weight_gradient();
  }
  while (has_halves && weight_gradients < steps.size()) weight_gradient();
  return actions;
}

}  // namespace

void check(const Pipeline& p) {
  if (p.ranks < 1 || p.stages_per_rank < 1 || p.micro_batches < 1) {
    throw user_error(fmt::format("a pipeline of {} ranks with {} stages each cannot compute {} micro-batches", p.ranks,
                                 p.stages_per_rank, p.micro_batches),
                     "each of the three numbers has to be at least 1", "correct the number that is too small");
  }
  const bool needs_several = p.schedule == PipelineSchedule::kInterleaved1F1B;
  const bool has_one = p.schedule == PipelineSchedule::kGPipe || p.schedule == PipelineSchedule::k1F1B;
  if (needs_several && p.stages_per_rank == 1) {
    throw user_error("schedule Interleaved1F1B has one stage per rank",
                     "with one stage there is nothing to interleave, and it holds more activations than 1F1B",
                     "take schedule 1F1B, or cut the model into at least two stages per rank")
        .about("parallelism.pipeline_parallel_schedule");
  }
  if (has_one && p.stages_per_rank > 1) {
    throw user_error(fmt::format("schedule {} has {} stages per rank", config::name_of(p.schedule), p.stages_per_rank),
                     "this schedule has one stage per rank",
                     "take schedule Interleaved1F1B or InterleavedZeroBubble, or one stage per rank")
        .about("parallelism.pipeline_parallel_schedule");
  }
}

std::string to_string(const Action& action) {
  return fmt::format("{}{}{}", action.stage, kActionNames[static_cast<size_t>(action.kind)], action.micro_batch);
}

std::vector<RankActions> compute_actions(const Pipeline& pipeline) {
  check(pipeline);
  const std::vector<LocalStep> steps = steps_in_rounds(pipeline);
  std::vector<RankActions> ranks;
  for (int64_t rank = 0; rank < pipeline.ranks; ++rank) ranks.push_back(actions_of(pipeline, rank, steps));
  return ranks;
}

}  // namespace hearth::plan
