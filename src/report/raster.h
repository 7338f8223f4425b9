// Spike counts as a picture: a row a neuron, a column a time bin, the darker the more spikes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hearth::report {

struct Raster {
  int64_t neurons = 0;
  std::vector<std::vector<uint8_t>> bins;  // each [neurons]
};

// `real` beside `generated`, of the same neurons, as a PNG file's bytes. A line in each stands before bin
// `first_generated`, where the model took over. A `real` that has nothing from there on is left out.
std::string raster_png(const Raster& real, const Raster& generated, int64_t first_generated);

}  // namespace hearth::report
