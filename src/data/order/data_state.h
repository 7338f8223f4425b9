// SPDX-License-Identifier: Apache-2.0
// The whole state of the data loader, as a checkpoint stores it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "data/order/mixture.h"
#include "data/order/sampler.h"

namespace hearth::data {

// The name of this state in a checkpoint (checkpoint::Manifest::states). Stored on disk: never change.
inline constexpr const char* kDataState = "data";

// A few dozen bytes per segment.
struct DataState {
  uint64_t seed = 0;
  uint64_t next_sample = 0;              // the loader's g: the first sample not yet trained on
  std::vector<std::string> sources;      // identity of each dataset
  std::vector<MixtureSegment> segments;  // those that have begun; weights in the order of `sources`
  uint64_t order_samples = 0;            // samples for which the tables of data.order = "neox" were made; 0: no tables
  int64_t order_version = kSampleOrderVersion;
  bool operator==(const DataState&) const = default;
};

// Writes and reads the JSON of docs/checkpoint_format.md. An old state that names no sources belongs to the one dataset
// `dataset`. Throws damaged() with `origin` for a missing or contradictory field.
std::string format_data_state(const DataState& state);
DataState parse_data_state(std::string_view json, const std::string& dataset, const std::string& origin);

}  // namespace hearth::data
