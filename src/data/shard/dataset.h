// SPDX-License-Identifier: Apache-2.0
// A dataset on disk: its manifest and, per split, all documents as one long row of tokens.
//
// Everything here is read-only and may be used from several threads. Shards are mapped when first used: opening costs
// one small file, and one stat per shard. Blocks are checked when first used: damage throws damaged() (exit 3) and
// never gives a wrong token.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "data/shard/manifest.h"
#include "recordings/array_stream.h"
#include "tokenizer/tokenizer.h"

namespace hearth::data {

// The position of a token.
struct TokenPosition {
  int64_t document = 0;  // index in the split
  int64_t offset = 0;    // tokens since the document's first
  int64_t shard = 0;     // index in the split's shards
};

// A document's origin; -1: the shard does not have it.
struct DocumentOrigin {
  int64_t source = -1;         // index in DatasetManifest::sources
  int64_t source_offset = -1;  // where the document starts in that file, in bytes
  int64_t text_bytes = -1;
};

// An array, without its counts.
struct ArrayInfo {
  recordings::ArrayShape shape;
  recordings::ArrayLabels labels;
};

// Decides the one random choice of reading: which neurons to take of an array that has more than n_fixed. It depends
// only on seed, epoch and the array's number, so a run can read the same tokens again. Reading text has no random
// choice.
struct Draw {
  uint64_t seed = 0, epoch = 0;
};

class Split {
 public:
  const std::string& name() const { return entry_.name; }
  int64_t tokens() const { return entry_.tokens; }
  int64_t documents() const { return entry_.documents; }
  int64_t text_bytes() const { return entry_.text_bytes; }
  const std::string& dataset_identity() const { return identity_; }

  // Tokens [first, first + out.size()) of the split, across documents and shards. The range must be inside the split.
  void read(int64_t first, std::span<int32_t> out, const Draw& draw = {}) const;

  // The weights of these tokens as labels (label_weights.h).
  void read_weights(int64_t first, std::span<float> out) const;
  // Totals of all weights; nothing: each token weighs 1.
  const std::optional<WeightTotals>& weights() const { return weights_; }

  // Appends the positions p in [first, first + count) at which a document starts, as p - first. Ascending.
  void document_starts(int64_t first, int64_t count, std::vector<int32_t>& starts) const;

  // First token of document `document`, 0 <= document <= documents(); that of documents() is tokens().
  int64_t document_begin(int64_t document) const;

  // The same for `count` documents from `first` on, in one read. The last may be documents().
  std::vector<int64_t> document_begins(int64_t first, int64_t count) const;

  TokenPosition locate(int64_t token) const;
  int64_t shard_of(int64_t token) const;  // touches no shard

  DocumentOrigin origin(int64_t document) const;

  // How arrays become tokens; null: the documents are text or ids.
  const recordings::ArrayStream* arrays() const;
  ArrayInfo array(int64_t document) const;  // only if arrays() is not null

 private:
  friend class Dataset;
  struct Shards;  // lazily opened
  struct Arrays;
  Split(const Path& folder, const SplitEntry& entry, std::string identity, std::shared_ptr<const Arrays> arrays);

  template <typename T, typename ReadPart>
  void read_shards(int64_t first, std::span<T> out, const ReadPart& read_part) const;
  void read_arrays(int64_t shard, int64_t first, std::span<int32_t> out, const Draw& draw) const;
  int64_t first_neuron(int64_t row, int64_t places, const Draw& draw) const;

  SplitEntry entry_;  // without its shards
  std::optional<WeightTotals> weights_;
  std::string identity_;
  std::vector<int64_t> first_token_, first_document_;  // of each shard, and one past the last
  std::shared_ptr<const Arrays> arrays_;
  std::shared_ptr<Shards> shards_;
};

class Dataset {
 public:
  // Throws user_error for a folder without a dataset or for another version, damaged() for a missing or cut shard.
  static Dataset open(const Path& folder);

  const Path& folder() const { return folder_; }
  const DatasetManifest& manifest() const { return manifest_; }
  // The tokenizer that the dataset was built with, from the copy in its folder. Throws damaged() for an incomplete
  // copy.
  std::unique_ptr<tokenizer::Tokenizer> open_tokenizer() const;
  bool has_split(std::string_view name) const { return manifest_.has_split(name); }
  // Throws user_error if the dataset has no such split, or if the split is empty (no text was held out).
  const Split& split(std::string_view name) const;

 private:
  Path folder_;
  DatasetManifest manifest_;
  std::vector<Split> splits_;
};

}  // namespace hearth::data
