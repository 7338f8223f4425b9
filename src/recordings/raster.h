// SPDX-License-Identifier: Apache-2.0
// Spike counts as a picture: a row per neuron, a column per time bin; more spikes are darker. Source of the format of
// PNG files: ISO/IEC 15948 (W3C PNG, second edition).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "recordings/prompt.h"

namespace hearth::recordings {

struct Raster {
  int64_t neurons = 0;
  std::vector<std::vector<uint8_t>> bins;  // each [neurons]
};

Raster raster_of(const SpikeArray& array);

// `real` and `generated` side by side, for the same neurons, as a PNG file's bytes. A line in each marks bin
// `first_generated`, the first one from the model. `real` is left out if it has no bins from there on.
std::string raster_png(const Raster& real, const Raster& generated, int64_t first_generated);

// A grey picture as a PNG file's bytes. `pixels` [height, width], from 0 (black) to 255 (white); at least one.
std::string gray_png(std::span<const uint8_t> pixels, int64_t width, int64_t height);

// Writes the bins that a model made as a .npy of uint8, [neurons, bins], and a picture of them beside the recording. An
// empty path: that file is not wanted. `whole` is the context of the prompt with the generated bins.
void write_generated(const Path& out, const Path& picture, const ArrayPrompt& prompt, const Raster& whole);

}  // namespace hearth::recordings
