// Arrays to try things with before there are recordings: 10 to 999 neurons, 100 to 1999 time bins, a tenth of the
// neurons always firing once and the others never. The shapes and the rule are those of the synthetic data of the
// neural-data repositories; chance comes from the seed and the row's number alone.
#pragma once

#include <cstdint>

#include "base/file.h"
#include "data/formats/spike_array.h"

namespace hearth::data {

SpikeArray synthetic_spikes(uint64_t seed, int64_t row);

// row-000000.npy, ... and metadata.jsonl in a new folder, as a source of `hearth data build`. Throws user_error for a
// folder that holds something.
void write_synthetic_spikes(const Path& folder, uint64_t seed, int64_t rows);

}  // namespace hearth::data
