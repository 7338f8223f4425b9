// SPDX-License-Identifier: Apache-2.0
// Schedules of a pipeline: which stage a rank computes next, and for which micro-batch.
//
// This is arithmetic without communication, and every rank gets the same answer. All calls are Local.
// plan/pipeline_simulation.h adds sends and receives and computes times.
//
// A model is cut into ranks x stages_per_rank stages. Stage s is on rank s % ranks, as in torch.distributed.pipelining.
// Names and orders are those of torch.distributed.pipelining:
//
//   GPipe                   arXiv 1811.06965  all forwards, then all backwards
//   1F1B                    arXiv 2006.09503  one forward and one backward in alternation: PipeDream-flush
//   Interleaved1F1B         arXiv 2104.04473  the same with several stages per rank: a smaller bubble, more transfers
//   InterleavedZeroBubble   arXiv 2401.10241  gradients of weights fill the bubble. With one stage per rank it is ZB-H1
//
// With equal stages, forward F, gradients of inputs I and of weights W, P ranks, v stages per rank and M micro-batches:
//
//   schedule                idle time of a rank    activations on rank p, of a stage and micro-batch each
//   GPipe                   (P-1)(F+I+W)           M
//   1F1B                    (P-1)(F+I+W)           min(M, P-p)
//   Interleaved1F1B         (P-1)(F+I+W)           min(v M, (v-1) P + 2 (P-1-p) + 1)
//   InterleavedZeroBubble   (P-1)(F+I-W)           min(v M, v P)
//
// The last two rows hold if M is a multiple of P. The last idle time also needs F, I and W to be equal; simulate()
// computes it for other times.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/choices.h"

namespace hearth::plan {

using config::PipelineSchedule;

struct Pipeline {
  PipelineSchedule schedule = PipelineSchedule::k1F1B;
  int64_t ranks = 1;
  int64_t stages_per_rank = 1;
  int64_t micro_batches = 1;  // of a step

  int64_t num_stages() const { return ranks * stages_per_rank; }
  int64_t rank_of(int64_t stage) const { return stage % ranks; }
};

// Throws user errors for numbers below 1, for several stages per rank with GPipe or 1F1B, and for one stage per rank
// with Interleaved1F1B.
void check(const Pipeline& pipeline);

enum class ActionKind : uint8_t {
  kForward,
  kBackward,        // gradients of the input and of the weights
  kInputGradient,   // the first half of a backward, which the previous stage waits for
  kWeightGradient,  // the second half
  kSendForward,     // a stage's output, to the next stage
  kRecvForward,     // a stage's input, from the previous stage
  kSendBackward,    // the gradient of a stage's input, to the previous stage
  kRecvBackward,    // the gradient of a stage's output, from the next stage
};

inline bool is_transfer(ActionKind kind) { return kind >= ActionKind::kSendForward; }

// The rank of `stage` does the action. The planner simulates millions of actions: 12 bytes take half the time of 24.
struct Action {
  ActionKind kind;
  int32_t stage;
  int32_t micro_batch;
  bool operator==(const Action&) const = default;
};

// As torch.distributed.pipelining writes it: stage, kind, micro-batch. "3F0", "3B0", "3I0", "3W0", "3SEND_F0",
// "4RECV_F0", "4SEND_B0", "3RECV_B0".
std::string to_string(const Action& action);

using RankActions = std::vector<Action>;

// The actions of each rank, in order, without transfers. Throws as check() does.
//
// Schedules with several stages per rank work in rounds: a rank computes a round's micro-batches in its first stage,
// then in its second, and so on. There are max(1, M / P) rounds. The paper, and Megatron, want M to be a multiple of P.
// PyTorch wants rounds of equal size. Here the first M % rounds of them have one micro-batch more.
std::vector<RankActions> compute_actions(const Pipeline& pipeline);

}  // namespace hearth::plan
