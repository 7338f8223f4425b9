// SPDX-License-Identifier: Apache-2.0
// Which layers are in which stage of a pipeline. This is arithmetic; all calls are Local.
#pragma once

#include <cstdint>
#include <vector>

namespace hearth::plan {

// Layers begin to end - 1. The first stage has the token embedding, too, and the last one the final norm and the output
// matrix.
struct StageLayers {
  int64_t begin, end;
  bool operator==(const StageLayers&) const = default;
  int64_t size() const { return end - begin; }
};

// Cuts the layers into stages of about equal work, each with at least one layer. The embedding counts as
// `first_stage_less_layers` layers of work and the output as `last_stage_less_layers`: these are torchtitan's keys
// parallelism.pipeline_parallel_first_stage_less_layers and ..._last_stage_less_layers, and 1 is the default there.
// Layers that are left over go to the first stages. The result is torchtitan's whenever torchtitan gives each stage a
// layer. Throws user errors for more stages than layers and for a negative number.
std::vector<StageLayers> stage_layers(int64_t num_layers, int64_t num_stages, int64_t first_stage_less_layers = 1,
                                      int64_t last_stage_less_layers = 1);

}  // namespace hearth::plan
