// SPDX-License-Identifier: Apache-2.0
#include "data/study/verify.h"

#include "base/error.h"
#include "base/hash.h"
#include "base/parallel.h"
#include "data/shard/weight_column.h"

namespace hearth::data {
namespace {

struct Checked {
  std::vector<std::string> damage;
  int64_t bytes = 0;
};

Checked check_shard(const Path& path, const ShardEntry& entry) {
  if (!path_exists(path)) return {{"it is missing"}, entry.size_bytes};
  try {
    const ShardReader shard(path);
    std::vector<std::string> damage = shard.find_damage();
    const int64_t bytes = entry.size_bytes + static_cast<int64_t>(shard.outside_bytes());
    if (to_hex64(shard.header().header_checksum) != entry.checksum)
      damage.emplace_back("it is whole, but not the shard that the manifest names");
    if (damage.empty() && entry.weights && find_weights(shard) != entry.weights)
      damage.emplace_back("its weights do not sum to the manifest's total");
    return {std::move(damage), bytes};
  } catch (const Error& e) {
    // In a store, a user's error is one of settings: no access, no room for copies.
    if (e.code() == ExitCode::kHardware || (e.code() == ExitCode::kUser && is_object(path))) throw;
    return {{e.why().empty() ? e.message() : e.why()}, entry.size_bytes};
  }
}

}  // namespace

VerifyResult verify_dataset(const Path& folder, int64_t threads) {
  VerifyResult result;
  result.manifest = read_manifest(folder);
  const std::vector<const ShardEntry*> shards = result.manifest.shards();
  std::vector<Checked> found(shards.size());
  for_each_index(static_cast<int64_t>(shards.size()), threads, [&](int64_t i) {
    const ShardEntry& shard = *shards[static_cast<size_t>(i)];
    found[static_cast<size_t>(i)] = check_shard(folder / shard.file, shard);
  });
  for (size_t i = 0; i < shards.size(); ++i) {
    result.bytes += found[i].bytes;
    for (std::string& description : found[i].damage) result.damage.push_back({shards[i]->file, std::move(description)});
  }
  return result;
}

}  // namespace hearth::data
