// SPDX-License-Identifier: Apache-2.0
// Orders next to those of torch.distributed.pipelining; simulated times and activations next to closed forms.
#include "plan/pipeline_schedule.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "plan/pipeline_simulation.h"
#include "support/errors.h"
#include "support/python.h"

namespace hearth::plan {
namespace {

using test::error_of;
using enum ActionKind;
using enum PipelineSchedule;

std::string text_of(const Pipeline& p) {
  return fmt::format("{}:{}:{}:{}", name_of(p.schedule), p.ranks, p.stages_per_rank, p.micro_batches);
}

bool has_one_stage(PipelineSchedule schedule) { return schedule == kGPipe || schedule == k1F1B; }

// Every pipeline of up to so many ranks and micro-batches, with 1 to 4 stages per rank where the schedule allows it.
std::vector<Pipeline> every_pipeline(int64_t ranks, int64_t micro_batches) {
  std::vector<Pipeline> all;
  for (const PipelineSchedule schedule : {kGPipe, k1F1B, kInterleaved1F1B, kInterleavedZeroBubble})
    for (int64_t v = schedule == kInterleaved1F1B ? 2 : 1; v <= (has_one_stage(schedule) ? 1 : 4); ++v)
      for (int64_t p = 1; p <= ranks; ++p)
        for (int64_t m = 1; m <= micro_batches; ++m) all.push_back({schedule, p, v, m});
  return all;
}

std::vector<RankActions> lowered(const Pipeline& p) { return with_transfers(p, compute_actions(p)); }

PipelineStep step_of(const Pipeline& p, TransferMode transfers = TransferMode::kOverlapped,
                     const StageTimes& stage = {}) {
  return simulate(p, lowered(p), equal_times(p, stage), transfers);
}

// The time in which a rank computes nothing, in units of a forward.
double idle_time(const Pipeline& p) {
  return step_of(p).time - static_cast<double>(3 * p.stages_per_rank * p.micro_batches);
}

TEST(PipelineSchedule, OrdersAreThoseOfPyTorch) {
  HEARTH_NEEDS_ORACLE();
  std::string names, orders;
  std::vector<Pipeline> pipelines = every_pipeline(4, 10);
  for (const Pipeline& large : {Pipeline{k1F1B, 16, 1, 64}, Pipeline{kInterleaved1F1B, 8, 4, 32}})
    pipelines.push_back(large);
  for (const Pipeline& p : pipelines) {
    const int64_t rounds = std::max(int64_t{1}, p.micro_batches / p.ranks);
    if (!has_one_stage(p.schedule) && p.micro_batches % rounds != 0) continue;  // PyTorch refuses these
    names += text_of(p) + " ";
    for (const RankActions& actions : compute_actions(p)) {
      std::vector<std::string> words;
      for (const Action& action : actions) words.push_back(to_string(action));
      orders += fmt::format("{}\n", fmt::join(words, " "));
    }
  }
  const test::CommandResult pytorch = test::run_python("tests/plan/pipeline_oracle.py " + names);
  ASSERT_EQ(pytorch.exit_code, 0) << pytorch.output;
  EXPECT_TRUE(pytorch.output == orders);
}

// Runs computations in the order of the lists, with what each one needs restated here. Whether all of them run.
bool computes(const Pipeline& p, const std::vector<RankActions>& lists) {
  std::set<std::string> done;
  const auto has = [&](int64_t stage, char kind, int64_t micro_batch) {
    return done.contains(fmt::format("{}{}{}", stage, kind, micro_batch));
  };
  const char backward = p.schedule == kInterleavedZeroBubble ? 'I' : 'B';
  const auto can_run = [&](const Action& a) {
    if (a.kind == kWeightGradient) return has(a.stage, 'I', a.micro_batch);
    if (a.kind == kForward) return a.stage == 0 || has(a.stage - 1, 'F', a.micro_batch);
    return has(a.stage, 'F', a.micro_batch) &&
           (a.stage + 1 == p.num_stages() || has(a.stage + 1, backward, a.micro_batch));
  };
  std::vector<size_t> next(lists.size());
  for (bool runs = true; runs;) {
    runs = false;
    for (size_t rank = 0; rank < lists.size(); ++rank) {
      for (; next[rank] < lists[rank].size() && can_run(lists[rank][next[rank]]); ++next[rank], runs = true)
        if (!done.insert(to_string(lists[rank][next[rank]])).second) return false;
    }
  }
  for (size_t rank = 0; rank < lists.size(); ++rank)
    if (next[rank] < lists[rank].size()) return false;
  return true;
}

TEST(PipelineSchedule, EachActionRunsOnceAfterWhatItNeedsAndOnTheRankOfItsStage) {
  for (const Pipeline& p : every_pipeline(5, 11)) {
    const std::vector<RankActions> actions = compute_actions(p);
    ASSERT_TRUE(computes(p, actions)) << text_of(p);
    ASSERT_EQ(std::ssize(actions), p.ranks);
    const int64_t kinds = p.schedule == kInterleavedZeroBubble ? 3 : 2;
    for (int64_t rank = 0; rank < p.ranks; ++rank) {
      const RankActions& list = actions[static_cast<size_t>(rank)];
      ASSERT_EQ(std::ssize(list), kinds * p.stages_per_rank * p.micro_batches) << text_of(p);
      for (const Action& a : list) ASSERT_EQ(a.stage % p.ranks, rank) << text_of(p) << to_string(a);
    }
  }
}

TEST(PipelineSchedule, TransfersAreBetweenAllNeighboursAndLeaveTheComputationsInOrder) {
  for (const Pipeline& p : every_pipeline(4, 9)) {
    std::vector<RankActions> lists = lowered(p);
    std::set<std::string> transfers;
    for (RankActions& list : lists) {
      for (const Action& a : list)
        ASSERT_TRUE(!is_transfer(a.kind) || transfers.insert(to_string(a)).second) << text_of(p) << to_string(a);
      std::erase_if(list, [](const Action& a) { return is_transfer(a.kind); });
    }
    ASSERT_EQ(lists, compute_actions(p)) << text_of(p);
    std::set<std::string> expected;
    for (int64_t stage = 1; p.ranks > 1 && stage < p.num_stages(); ++stage) {
      for (int64_t m = 0; m < p.micro_batches; ++m) {
        expected.insert(fmt::format("{}SEND_F{}", stage - 1, m));
        expected.insert(fmt::format("{}RECV_F{}", stage, m));
        expected.insert(fmt::format("{}SEND_B{}", stage, m));
        expected.insert(fmt::format("{}RECV_B{}", stage - 1, m));
      }
    }
    ASSERT_EQ(transfers, expected) << text_of(p);
  }
}

TEST(PipelineSchedule, NoneOfUpTo16RanksAnd64MicroBatchesGetsStuck) {
  const std::vector<Pipeline> all = every_pipeline(16, 64);
  EXPECT_EQ(all.size(), 9u * 16 * 64);
  for (const Pipeline& p : all) ASSERT_FALSE(step_of(p, TransferMode::kBlocking).is_stuck) << text_of(p);
  for (const Pipeline& p : every_pipeline(16, 5)) ASSERT_FALSE(step_of(p).is_stuck) << text_of(p);
}

// Each rank receives directly before a computation that needs it and sends directly after it.
std::vector<RankActions> naive_transfers(const Pipeline& p) {
  std::vector<RankActions> lists(static_cast<size_t>(p.ranks));
  for (const RankActions& actions : compute_actions(p)) {
    for (const Action& a : actions) {
      RankActions& list = lists[static_cast<size_t>(p.rank_of(a.stage))];
      const bool is_forward = a.kind == kForward, is_gradient = a.kind == kBackward || a.kind == kInputGradient;
      const bool has_previous = p.ranks > 1 && a.stage > 0, has_next = p.ranks > 1 && a.stage + 1 < p.num_stages();
      if (is_forward && has_previous) list.push_back({kRecvForward, a.stage, a.micro_batch});
      if (is_gradient && has_next) list.push_back({kRecvBackward, a.stage, a.micro_batch});
      list.push_back(a);
      if (is_forward && has_next) list.push_back({kSendForward, a.stage, a.micro_batch});
      if (is_gradient && has_previous) list.push_back({kSendBackward, a.stage, a.micro_batch});
    }
  }
  return lists;
}

// Two neighbours that both send first wait for ever. 1F1B does that from the second micro-batch on, GPipe never.
TEST(PipelineSchedule, TransfersNextToTheComputationsGetStuck) {
  for (const Pipeline& p : every_pipeline(6, 12)) {
    const bool has_cycle = p.schedule != kGPipe && p.ranks > 1 && p.micro_batches > 1;
    for (const TransferMode transfers : {TransferMode::kBlocking, TransferMode::kOverlapped}) {
      const PipelineStep step = simulate(p, naive_transfers(p), equal_times(p, {}), transfers);
      ASSERT_EQ(step.is_stuck, has_cycle) << text_of(p);
    }
  }
}

TEST(PipelineSchedule, BubblesAreThePapers) {
  for (const Pipeline& p : every_pipeline(16, 64)) {
    const auto P = static_cast<double>(p.ranks), v = static_cast<double>(p.stages_per_rank);
    const auto M = static_cast<double>(p.micro_batches);
    if (has_one_stage(p.schedule)) {
      ASSERT_NEAR(step_of(p).bubble, (P - 1) / (M + P - 1), 1e-12) << text_of(p);
      if (p.micro_batches % 8 != 0) continue;
      // The bubble is the same however forward and backward share the time.
      const StageTimes uneven = {.forward = 0.7, .input_gradient = 1.9, .weight_gradient = 0.4};
      ASSERT_NEAR(step_of(p, TransferMode::kOverlapped, uneven).time, (M + P - 1) * 3, 1e-9) << text_of(p);
    } else if (p.micro_batches >= p.ranks) {
      // Also where a round has more micro-batches than there are ranks, and where rounds differ.
      const double bubble = p.schedule == kInterleaved1F1B ? (P - 1) / (v * M + P - 1) : (P - 1) / (3 * v * M + P - 1);
      ASSERT_NEAR(step_of(p).bubble, bubble, 1e-12) << text_of(p);
    }
  }
  // A third of 1F1B's with the same activations.
  EXPECT_DOUBLE_EQ(idle_time({kInterleavedZeroBubble, 8, 1, 32}) * 3, idle_time({k1F1B, 8, 1, 32}));
}

// The largest number of activations that a rank holds at once: of a stage and micro-batch each, from the begin of the
// forward to the end of the backward, or of the gradient of the weights where that is an action of its own.
int64_t most_held(const RankActions& actions) {
  int64_t held = 0, peak = 0;
  for (const Action& action : actions) {
    if (action.kind == ActionKind::kForward) peak = std::max(peak, ++held);
    if (action.kind == ActionKind::kBackward || action.kind == ActionKind::kWeightGradient) --held;
  }
  return peak;
}

TEST(PipelineSchedule, PeakActivationsAreThePapers) {
  for (const Pipeline& p : every_pipeline(16, 64)) {
    if (p.stages_per_rank > 1 && p.micro_batches % p.ranks != 0) continue;
    const std::vector<RankActions> actions = compute_actions(p);
    const int64_t P = p.ranks, v = p.stages_per_rank, M = p.micro_batches;
    for (int64_t rank = 0; rank < P; ++rank) {
      const int64_t peak = most_held(actions[static_cast<size_t>(rank)]);
      const auto expected = [&] {
        if (p.schedule == kGPipe) return M;
        if (p.schedule == k1F1B) return std::min(M, P - rank);
        if (p.schedule == kInterleaved1F1B) return std::min(v * M, (v - 1) * P + 2 * (P - 1 - rank) + 1);
        return std::min(v * M, v * P);  // ZB-H1: as many as the first rank of 1F1B
      };
      ASSERT_EQ(peak, expected()) << text_of(p) << " rank " << rank;
    }
  }
}

// Micro-batches pass through stages of any times as through a flow shop: the first one takes the sum, and each further
// one the longest.
TEST(PipelineSimulation, GPipeOfUnevenStagesTakesTheSumAndTheLongest) {
  const Pipeline p = {kGPipe, 4, 1, 9};
  // Forwards take longer from rank to rank and backwards from rank to rank the other way. So a transfer never waits for
  // one before it in its stream.
  const PipelineTimes times = {{{1, 3, 1}, {1.5, 2, 0.5}, {2, 1, 1}, {2.5, 0.5, 0.5}}, 0};
  for (const TransferMode transfers : {TransferMode::kBlocking, TransferMode::kOverlapped}) {
    const PipelineStep step = simulate(p, lowered(p), times, transfers);
    EXPECT_DOUBLE_EQ(step.time, (7 + 8 * 2.5) + (9.5 + 8 * 4));
    EXPECT_DOUBLE_EQ(step.bubble, 1 - 9 * (7 + 9.5) / (4 * step.time));
  }
}

TEST(PipelineSimulation, TransfersOfTheirOwnStreamDelayOnlyTheFirstMicroBatchOfGPipe) {
  for (const Pipeline& p : every_pipeline(9, 20)) {
    if (p.schedule != kGPipe) continue;
    const PipelineStep step = simulate(p, lowered(p), equal_times(p, {}, 0.25), TransferMode::kOverlapped);
    const auto P = static_cast<double>(p.ranks), M = static_cast<double>(p.micro_batches);
    ASSERT_DOUBLE_EQ(step.time, (M + P - 1) * 3 + 2 * (P - 1) * 0.25) << text_of(p);
  }
}

// All transfers of three ranks are the middle one's, which has one at a time.
TEST(PipelineSimulation, AStreamHasOneTransferAtATime) {
  const Pipeline p = {kGPipe, 3, 1, 6};
  for (const TransferMode transfers : {TransferMode::kBlocking, TransferMode::kOverlapped})
    EXPECT_DOUBLE_EQ(simulate(p, lowered(p), equal_times(p, {0, 0, 0}, 2), transfers).time, 4 * 6 * 2);
}

// Two ranks, two micro-batches, GPipe. Rank 1 receives the second one after its first forward, and rank 0 waits for it.
TEST(PipelineSimulation, BlockingTransfersTakeTimeOfBothRanks) {
  const Pipeline p = {kGPipe, 2, 1, 2};
  // Rank 0: F 0-1, send 1-1.25, F 1.25-2.25, send 2.25-2.5. Rank 1: recv, F 1.25-2.25, recv 2.25-2.5, F 2.5-3.5,
  // B 3.5-5.5, send 5.5-5.75, B 5.75-7.75, send 7.75-8. Rank 0: B 5.75-7.75, recv 7.75-8, B 8-10.
  EXPECT_DOUBLE_EQ(simulate(p, lowered(p), equal_times(p, {}, 0.25), TransferMode::kBlocking).time, 10);
  EXPECT_DOUBLE_EQ(simulate(p, lowered(p), equal_times(p, {}, 0.25), TransferMode::kBlocking).bubble, 1 - 6 / 10.0);
}

TEST(PipelineSchedule, AScheduleThatCannotHaveTheseStagesIsAnError) {
  EXPECT_EQ(error_of([] {
              compute_actions({kInterleaved1F1B, 4, 1, 8});
            }).message(),
            "schedule Interleaved1F1B has one stage per rank");
  EXPECT_EQ(error_of([] { compute_actions({k1F1B, 4, 2, 8}); }).message(), "schedule 1F1B has 2 stages per rank");
  EXPECT_EQ(error_of([] {
              compute_actions({kGPipe, 4, 1, 0});
            }).message(),
            "a pipeline of 4 ranks with 1 stages each cannot compute 0 micro-batches");
}

}  // namespace
}  // namespace hearth::plan
