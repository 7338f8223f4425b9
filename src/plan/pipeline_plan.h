// SPDX-License-Identifier: Apache-2.0
// The pipeline of a run: which layers each rank has, and in which order and place it computes its micro-batches. This
// is arithmetic; all calls are Local. model/transformer.h runs it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/config.h"
#include "plan/parameters.h"
#include "plan/pipeline_schedule.h"
#include "plan/pipeline_stages.h"

namespace hearth::plan {

struct PipelinePlan {
  Pipeline pipeline;                // all its micro-batches end before the next ones begin
  std::vector<StageLayers> layers;  // of each stage

  // The stages of a rank, in ascending order: rank, rank + ranks, ...
  std::vector<StageLayers> stages_of(int64_t rank) const;
};

// `num_layers`: of the model. A single rank has one stage, and one micro-batch at a time. Throws user errors about
// [parallelism]: stages that the schedule or the layers do not allow.
PipelinePlan pipeline_plan(const config::RunConfig& config, int64_t num_layers);

// The part of a step in which ranks wait for each other, averaged over them: 0 to 1. Counts the products and the
// attention of each stage, and no time for transfers.
double pipeline_bubble(const PipelinePlan& plan, const ModelShape& shape, int64_t seq_len);

// The layers and the bubble for display, in one line; empty for a single rank.
std::string format_pipeline(const PipelinePlan& plan, const ModelShape& shape, int64_t seq_len);

// A rank's actions, each with the slot of its stage that holds the micro-batch's activations (plan/activations.h).
struct PlacedAction {
  Action action;
  int64_t slot;
};
struct RankSchedule {
  std::vector<PlacedAction> actions;
  std::vector<int64_t> slots;  // the number of slots of each of the rank's stages
};

// kForward: without gradients, to measure a loss.
enum class PipelinePass { kTraining, kForward };
RankSchedule rank_schedule(const Pipeline& pipeline, int64_t rank, PipelinePass pass);

}  // namespace hearth::plan
