// SPDX-License-Identifier: Apache-2.0
// A row of a neural dataset: the spike counts of each neuron in each time bin, and the row's labels.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hearth::recordings {

struct ArrayShape {
  int64_t neurons = 0, bins = 0;
  int64_t cells() const { return neurons * bins; }
  bool operator==(const ArrayShape&) const = default;
};

// Also the names of the shards' columns: never change.
inline constexpr std::array<std::string_view, 4> kLabelNames = {"subject_id", "session_id", "segment_id",
                                                                "source_dataset"};
using ArrayLabels = std::array<std::string, kLabelNames.size()>;
inline constexpr size_t kSourceDataset = 3;
inline constexpr size_t kMostLabelBytes = 1024;  // of one label

struct SpikeArray {
  ArrayShape shape;
  std::vector<uint8_t> counts;  // [bins, neurons]: one time bin after another, in reading order
  ArrayLabels labels;           // empty: unknown
};

// Turns counts [neurons, bins], as datasets store them, into [bins, neurons].
std::vector<uint8_t> time_major(std::span<const uint8_t> counts, ArrayShape shape);

}  // namespace hearth::recordings
