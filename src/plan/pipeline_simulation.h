// SPDX-License-Identifier: Apache-2.0
// A pipeline's transfers, and the time of its step.
//
// This is arithmetic without communication. All calls are Local.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/pipeline_schedule.h"

namespace hearth::plan {

// Adds sends and receives to compute_actions(pipeline), in which each rank's actions may have any order that computes.
// Neighbouring stages of one rank need no transfer.
//
// Every rank computes all ranks' lists, from one simulated step: an action is appended to its rank's list when it
// starts; when it ends, a send and its receive are appended to both ranks' lists at once. So all lists are parts of one
// total order. The first of its actions that is not yet done can always run: no order of transfers can lock up, even
// where a send waits for its receive. The simulation counts a forward and each half of a backward as one tick and a
// transfer as none, whatever the real times are: ranks need not agree on measured times. The price: if stages differ
// much, a transfer may wait for another one that is earlier in the order.
std::vector<RankActions> with_transfers(const Pipeline& pipeline, const std::vector<RankActions>& actions);

// Seconds, or any other unit. A whole backward takes both gradients.
struct StageTimes {
  double forward = 1, input_gradient = 1, weight_gradient = 1;
};
struct PipelineTimes {
  std::vector<StageTimes> stages;  // of each stage
  double transfer = 0;             // of an activation, or its gradient, between two ranks
};
PipelineTimes equal_times(const Pipeline& pipeline, const StageTimes& stage, double transfer = 0);

// A transfer always needs both ranks at once: a send waits for its receive.
enum class TransferMode {
  kBlocking,    // a rank computes nothing while it sends or receives
  kOverlapped,  // transfers have a stream of their own, which takes them in their order. Computations wait for what
                // they need, and only for that
};

struct PipelineStep {
  bool is_stuck = false;  // the ranks wait for each other for ever; the two times are then 0
  double time = 0;        // of the whole step
  double bubble = 0;      // the part of `time` in which ranks do not compute, averaged over the ranks: 0 to 1
};

// Runs the lists of with_transfers(), or other lists of the same actions.
PipelineStep simulate(const Pipeline& pipeline, const std::vector<RankActions>& actions, const PipelineTimes& times,
                      TransferMode transfers);

}  // namespace hearth::plan
