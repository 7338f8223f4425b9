// SPDX-License-Identifier: Apache-2.0
// Facts about a run's data that change the run's shape (plan/run_shape.h). They come from the manifests alone and no
// shard is opened, so `hearth plan` and a training know the same facts.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "config/config.h"
#include "data/shard/manifest.h"
#include "plan/run_shape.h"

namespace hearth::data {

// The manifests of a run's datasets.
struct RunManifests {
  std::vector<const DatasetManifest*> sources;  // of the training data: those that can be read, in order
  std::vector<const DatasetManifest*>
      sets;  // one for each of validation.set, if there are any; null: it cannot be read
};

// A split on which the loss is measured.
struct MeasuredSplit {
  size_t number;  // in RunManifests::sets, or in its sources if the run file names no set
  std::string split;
};

// With validation.freq: the split of each set that can be read. Without sets: the held-out documents of each source
// that has some.
std::vector<MeasuredSplit> measured_splits(const config::RunConfig& config, const RunManifests& manifests);

plan::DataFacts data_facts(const config::RunConfig& config, const RunManifests& manifests);

// Reads the datasets that exist: a run can be planned before its data exist, if model.vocab_size is given. Throws the
// errors of read_manifest.
plan::DataFacts data_facts(const config::RunConfig& config);

}  // namespace hearth::data
