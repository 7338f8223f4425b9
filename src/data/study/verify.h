// SPDX-License-Identifier: Apache-2.0
// Checks every checksum of a dataset.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/file.h"
#include "data/shard/manifest.h"

namespace hearth::data {

struct Damage {
  std::string shard;        // file name
  std::string description;  // names the block, its bytes, and its column if it has one
};

struct VerifyResult {
  DatasetManifest manifest;
  int64_t bytes = 0;           // bytes that were checked
  std::vector<Damage> damage;  // of all shards, in the manifest's order; empty: the dataset is whole
};

// Throws the errors of read_manifest; the result has everything about shards.
VerifyResult verify_dataset(const Path& folder, int64_t threads);

}  // namespace hearth::data
