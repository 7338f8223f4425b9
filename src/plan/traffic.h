// SPDX-License-Identifier: Apache-2.0
// The bytes that a rank sends in a step, along each axis of the mesh. This is arithmetic; all calls are Local.
//
// A group of n ranks, of which each holds or gets a part of a buffer of `bytes`, sends per rank:
//   all-gather, reduce-scatter    (n - 1) / n * bytes of the whole buffer
//   all-reduce                    2 (n - 1) / n * bytes
//   all-to-all                    (n - 1) / n * bytes of the rank's own buffer
// These are the least that any algorithm sends, and what rings and direct exchanges send (Thakur and others 2005).
// Small exchanges are left out: losses, counts, norms of gradients, and the vocabulary-parallel loss's maximum and sum.
// What ranks that share layers or sequences send is counted from the program that they run (models/messages.h).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "mesh/mesh.h"
#include "plan/activations.h"
#include "plan/parameters.h"
#include "plan/pipeline_plan.h"
#include "plan/precision.h"
#include "plan/sharding.h"

namespace hearth::plan {

struct TrafficStep {
  int64_t micro_batches = 1;                  // of a step
  int64_t batch = 1;                          // sequences of a micro-batch: B
  int64_t seq_len = 1;                        // positions of a whole sequence: S
  std::span<const Recompute> recompute = {};  // of each layer of the model; empty: none
  Backward backward = Backward::kWhole;
};

// Bytes that a rank sends in a step. An axis of one rank has none.
struct StepTraffic {
  double shard = 0;      // weights gathered and gradients reduced over dp_shard x cp, by the stage of ZeRO
  double replicate = 0;  // shards of gradients summed over dp_replicate
  double tensor = 0;     // activations gathered and reduced over tp
  double context = 0;    // heads for positions, and keys and values, over cp (plan/context_parallel.h)
  double experts = 0;    // rows to and from the ranks that have their experts, if all experts get equally many
  double pipeline = 0;   // activations and their gradients to neighbouring stages
  double total() const { return shard + replicate + tensor + context + experts + pipeline; }
};

// Elements of the model's weights: of the embedding, of each layer without its experts, and of the output.
struct UnitCounts {
  std::vector<double> shared, whole;  // tensor-parallel ranks have parts of the former, and all of the latter
  std::vector<double> experts;        // of each layer
};
UnitCounts unit_counts(const ParameterPlan& whole);

// The traffic of a rank for one stage of a pipeline; add it up for a rank with several stages. The rank has T = B S /
// cp tokens.
//
//   shard       stages 1 and 2 gather the weights once, stage 3 twice a micro-batch: plan/sharding.h. Gradients are
//               reduced once by stage 1, and with each micro-batch by stages 2 and 3 and where reproducible. tp divides
//               matrices; norms are on each of its ranks. Stage 3 may find a unit in its slot and then sends less.
//   pipeline    [T / tp, D] for each neighbour and micro-batch, each way.
StepTraffic step_traffic(const ModelShape& shape, const UnitCounts& counts, const mesh::Degrees& degrees,
                         const Sharding& sharding, const Precision& precision, const TrafficStep& step,
                         const PipelinePlan& plan, int64_t stage);

// The traffic of the rank that sends most in a run. `shape` is of the whole model; `recompute`: of each layer.
StepTraffic run_traffic(const config::RunConfig& config, const ModelShape& shape, const Precision& precision,
                        std::span<const Recompute> recompute);
// The same for a search through many meshes: the caller computes `counts` once.
StepTraffic run_traffic(const config::RunConfig& config, const ModelShape& shape, const UnitCounts& counts,
                        const Precision& precision, const PipelinePlan& plan, std::span<const Recompute> recompute);

// One line for `hearth plan`; empty if the rank sends nothing.
std::string format_traffic(const StepTraffic& traffic);

}  // namespace hearth::plan
