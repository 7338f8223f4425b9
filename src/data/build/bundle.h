// SPDX-License-Identifier: Apache-2.0
// A run of a portion's documents, held in memory. It becomes one shard per split.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <optional>
#include <vector>

#include "data/build/plan.h"
#include "data/build/portion_reader.h"
#include "data/shard/sequence_hash.h"
#include "data/shard/shard_format.h"

namespace hearth::data {

class Bundle {
 public:
  Bundle(size_t portion, int64_t index) : portion_(portion), index_(index) {}

  void add(const Document& document, size_t split);  // copies data without an owner
  size_t portion() const { return portion_; }
  int64_t index() const { return index_; }  // in its portion
  int64_t data_bytes() const { return data_bytes_; }
  const std::vector<Document>& documents(size_t split) const { return documents_[split]; }

 private:
  size_t portion_;
  int64_t index_;
  int64_t data_bytes_ = 0;
  std::array<std::vector<Document>, kNumSplits> documents_;
  std::unique_ptr<std::pmr::monotonic_buffer_resource> memory_ =
      std::make_unique<std::pmr::monotonic_buffer_resource>(1 << 16);
};

// A bundle's contribution to a split.
struct BundleSplit {
  std::optional<ShardEntry> shard;  // nothing: there is no document
  bool kept = false;
  int64_t text_bytes = 0;
  int64_t special_text_seen = 0, invalid_bytes_replaced = 0;
  SequenceHash content;
};

// Writes the bundle's shards, except those that exist and are whole. These are read to the end, so building again also
// repairs.
std::array<BundleSplit, kNumSplits> write_bundle(const Bundle& bundle, const BuildPlan& plan,
                                                 const BuildOptions& options, BuildProgress& progress);

// The header of the shard at `path`, if it is whole and has this identity.
std::optional<ShardHeader> find_whole_shard(const Path& path, const std::string& identity);
std::string identity_of(const ShardHeader& header);  // 32 hexadecimal digits

}  // namespace hearth::data
