// SPDX-License-Identifier: Apache-2.0
// Synthetic arrays, for trials without recordings: 10 to 999 neurons, 100 to 1999 time bins. A tenth of the neurons
// always fires, the others never. The shapes and the rule are those of the neural-data repositories' synthetic data.
// The random numbers depend only on the seed and the row's number.
#pragma once

#include <cstdint>

#include "base/file.h"
#include "recordings/spike_array.h"

namespace hearth::recordings {

SpikeArray synthetic_spikes(uint64_t seed, int64_t row);

// Writes row-000000.npy, ... and metadata.jsonl to a new folder, as a source of `hearth data build`. Throws user_error
// for a folder that is not empty.
void write_synthetic_spikes(const Path& folder, uint64_t seed, int64_t rows);

}  // namespace hearth::recordings
