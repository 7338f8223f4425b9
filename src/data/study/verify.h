// Every checksum of a dataset.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/file.h"
#include "data/shard/manifest.h"

namespace hearth::data {

struct Damage {
  std::string shard;        // file name
  std::string description;  // names block, bytes and column where there is one
};

struct VerifyResult {
  Manifest manifest;
  int64_t bytes = 0;           // that were checked
  std::vector<Damage> damage;  // of all shards, in the manifest's order; empty: the dataset is whole
};

// Throws what read_manifest throws; everything about shards is in the result.
VerifyResult verify_dataset(const Path& folder, int64_t threads);

}  // namespace hearth::data
