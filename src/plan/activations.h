// SPDX-License-Identifier: Apache-2.0
// The place of every buffer of a program in the one arena that a rank allocates. A plan has sizes and offsets and
// allocates nothing. The model runs by this plan, so its memory is known before the start.
//
// A buffer lives from the step that writes it to the last step that reads it (models/program.h). Two buffers that are
// never alive together may share bytes. Forward's outputs for backward live long. The rest is scratch, shared by layers
// and by forward and backward.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/dtype.h"
#include "models/program.h"
#include "plan/parameters.h"

namespace hearth::plan {

using models::Backward;
using models::Recompute;

// The memory of a stage's activations, or of all stages of a rank.
struct ActivationBytes {
  int64_t slot_bytes = 0, num_slots = 0;  // what a micro-batch keeps between its passes; 0: everything is shared
  int64_t shared_bytes = 0;               // all else
  int64_t total_bytes = 0;                // of the arena
  int64_t peak_bytes = 0;  // the most that is alive at one step; the arena is as large or slightly larger
  std::string peak_step;
  std::vector<std::pair<std::string_view, int64_t>> at_peak;  // the bytes of the buffers of each name
};
void add_at_peak(ActivationBytes& sum, std::string_view name, int64_t bytes);

struct BufferPlace {
  int64_t size_bytes;  // rounded up
  int64_t offset_bytes = 0;
  bool is_in_slot = false;  // the offset is from the start of a slot
};

struct ActivationPlan : ActivationBytes {
  models::Program program;
  std::vector<BufferPlace> places;  // of the program's buffers
};

// Places the buffers of a program. `slots`: how many micro-batches a stage of a pipeline holds at once. 0: each
// micro-batch ends before the next begins.
ActivationPlan activation_plan(models::Program program, int64_t slots = 0);

// How many positions' logits exist at a time: memory.loss_chunk_tokens. This function decides -1, with the same result
// on all ranks. A GPU reads and writes the gradient of the output matrix once a chunk, so larger chunks are faster
// there (bench/results/gpu_20261128_h100.md).
int64_t loss_chunk(int64_t setting, const ModelShape& shape, DType compute, bool on_gpu);

// For micro-batches of B sequences of S positions, computed in `dtype`. `shape` may be a part of a model (model_part):
// then each rank keeps T / ranks rows of the residual stream and of other buffers with D columns. Row statistics are
// float32 if `dtype` is bfloat16. Without a backward nothing is kept for it. `recompute`: one per layer; empty: none.
ActivationPlan activation_plan(const ModelShape& shape, int64_t B, int64_t S, DType dtype, int64_t loss_chunk_tokens,
                               Backward backward, std::span<const Recompute> recompute = {}, int64_t slots = 0);

}  // namespace hearth::plan
