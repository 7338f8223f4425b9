// SPDX-License-Identifier: Apache-2.0
// Estimates what layers must recompute on a layout, from a few small plans: a rank's activations are linear in its
// layers of each kind, to within a few percent. For a search through many layouts. memory_plan() is exact, and slower.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "config/config.h"
#include "plan/memory.h"
#include "plan/pipeline_plan.h"
#include "plan/run_shape.h"

namespace hearth::plan {

class LayoutMemory {
 public:
  // Borrows the run.
  explicit LayoutMemory(const RunShape& run) : run_(run), kinds_(models::layer_kinds(run.model)) {}

  // The levels that cost the least time, one for each layer, so that the first pipeline rank of `config` has at most
  // `limit_bytes` of weights, activations and workspace on a GPU. Empty: nothing fits.
  std::optional<std::vector<Recompute>> cheapest(const config::RunConfig& config, const PipelinePlan& pipeline,
                                                 double limit_bytes);

  // The estimate of the same memory if every layer recomputes all: the least that this layout can take.
  double least(const config::RunConfig& config, const PipelinePlan& pipeline);

 private:
  // Memory that does not depend on the levels: weights and workspace.
  double fixed(const config::RunConfig& config, const PipelinePlan& pipeline);
  // Bytes on the first rank at a level: a fixed part, and a part for each layer.
  struct LevelBytes {
    double fixed = 0;
    std::vector<double> layers{};
  };
  LevelBytes bytes_of(const config::RunConfig& config, const PipelinePlan& pipeline, Recompute level);
  // Bytes of a stage's activations, in memory that all stages share and in a slot; and what a layer of each kind adds
  // to both.
  struct Line {
    double shared = 0, slot = 0;
    std::vector<double> shared_of_layer{}, slot_of_layer{};
  };

  const Line& line(const config::RunConfig& config, const PipelinePlan& pipeline, Recompute level);
  double weights(const config::RunConfig& config, const PipelinePlan& pipeline);
  // Micro-batches that the first rank holds, for each of its stages.
  const std::vector<int64_t>& slots(const Pipeline& pipeline);

  const RunShape& run_;
  const models::LayerKinds kinds_;
  // By tp, cp, B, S, whether the model is in stages, whether backward is in halves, and level.
  std::map<std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t, bool, bool, Recompute>, Line> lines_;
  using PartKey = std::tuple<int64_t, int64_t, int64_t, int64_t>;  // tp, ep, pipeline ranks and stages of a rank
  std::map<PartKey, ParameterPlan> parts_;
  // Also by shards, stage of ZeRO, and whether gradients are reduced once a step.
  std::map<std::tuple<PartKey, int64_t, int64_t, bool>, double> weights_;
  std::map<std::tuple<PipelineSchedule, int64_t, int64_t, int64_t>, std::vector<int64_t>> slots_;
};

}  // namespace hearth::plan
