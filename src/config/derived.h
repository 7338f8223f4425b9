// What follows from a configuration by arithmetic.
#pragma once

#include <cstdint>

#include "config/config.h"

namespace hearth::config {

int64_t global_batch_size(const RunConfig& config);   // sequences a step, over all ranks
int64_t accumulation_steps(const RunConfig& config);  // micro-batches a rank computes in a step
int64_t tokens_per_step(const RunConfig& config);     // positions, over all ranks

// Length of the training in steps: tokens and epochs are rounded up to whole steps. `samples_per_epoch` is the number
// of windows the data holds; only a length in epochs needs it.
int64_t total_steps(const RunConfig& config, int64_t samples_per_epoch);

}  // namespace hearth::config
