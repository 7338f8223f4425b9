// What a run's data say about its shape (plan/run_shape.h), from their manifests alone: no shard is opened, so that
// `hearth plan` knows what a training knows.
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
  std::vector<const Manifest*> sources;  // of the training data: those that can be read, in order
  std::vector<const Manifest*> sets;     // one for each of validation.set, or none at all; null: it cannot be read
};

// Documents that the loss is measured on.
struct MeasuredSplit {
  size_t number;  // in RunManifests::sets, or in its sources where the run file names no set
  std::string split;
};

// With validation.freq: of each set that can be read its split, or the held-out documents of the sources that have any.
std::vector<MeasuredSplit> measured_splits(const config::RunConfig& config, const RunManifests& manifests);

plan::DataFacts data_facts(const config::RunConfig& config, const RunManifests& manifests);

// Reads the datasets that are there: a run can be planned before its data exist, if model.vocab_size is given. Throws
// what read_manifest throws.
plan::DataFacts data_facts(const config::RunConfig& config);

}  // namespace hearth::data
