// SPDX-License-Identifier: Apache-2.0
// The layouts of a run on a number of devices, best first: every mesh, stage of ZeRO, micro-batch and pipeline schedule
// that the configuration's rules allow and that fits the memory, by the times of plan/step_time.h. This is arithmetic;
// all calls are Local.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "config/config.h"
#include "plan/memory.h"
#include "plan/run_shape.h"
#include "plan/step_time.h"

namespace hearth::plan {

struct Layout {
  config::RunConfig config;  // the run with this layout; training.global_batch_size is the run's
  MemoryPlan memory;         // of the rank that needs most
  StepTime time;
  double bubble;  // of the pipeline
};

// At most `count` layouts for speed.devices devices of `memory_bytes` each, the fastest first. Each combination of pp,
// cp and tp has at most one. A layout recomputes as little as fits, and keeps the global batch of `config`. Each rank
// has a device, or on a CPU an equal part of its memory. Tensor-parallel ranks are on one node. Empty if nothing fits.
std::vector<Layout> search_layouts(const config::RunConfig& config, const RunShape& run, int64_t memory_bytes,
                                   int64_t steps, const Speed& speed, int64_t count);

// Why search_layouts finds nothing: no number of ranks divides the batch, or even the smallest layout needs too much
// memory.
std::string why_no_layout(const config::RunConfig& config, const RunShape& run, int64_t memory_bytes,
                          const Speed& speed);

// "pp 4, dp_replicate 2, dp_shard 8, tp 8": the degrees that are not 1; "one device".
std::string format_mesh(const config::Parallelism& parallelism);
// The layouts in words, for an error: "dp_shard 4 with zero_stage = 3 and local_batch_size = 1; ...".
std::string list_layouts(const std::vector<Layout>& layouts);
// A table, one line per layout, and the keys of the first one for a run file.
std::string format_layouts(const std::vector<Layout>& layouts, const ModelShape& shape);

}  // namespace hearth::plan
