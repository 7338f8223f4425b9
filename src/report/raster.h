// Spike counts as a picture: a row per neuron, a column per time bin; more spikes are darker.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hearth::report {

struct Raster {
  int64_t neurons = 0;
  std::vector<std::vector<uint8_t>> bins;  // each [neurons]
};

// `real` and `generated` side by side, for the same neurons, as a PNG file's bytes. A line in each marks bin
// `first_generated`, the first one from the model. `real` is left out if it has no bins from there on.
std::string raster_png(const Raster& real, const Raster& generated, int64_t first_generated);

}  // namespace hearth::report
