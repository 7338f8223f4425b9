// SPDX-License-Identifier: Apache-2.0
// manifest.json: the content of a dataset. A build writes it last: a folder without it is no dataset.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "data/source/source.h"

namespace hearth::data {

inline constexpr int64_t kManifestVersion = 1;         // stored on disk
inline constexpr int64_t kWiderManifestVersion = 2;    // with shards that version 1 cannot describe
inline constexpr int64_t kWeightsManifestVersion = 3;  // with label weights: a program that ignores them must not train
inline constexpr std::string_view kManifestName = "manifest.json";

struct ShardEntry {
  std::string file;  // name in the dataset's folder
  int64_t size_bytes = 0;
  int64_t tokens = 0, documents = 0;      // of arrays: tokens as read
  std::string identity;                   // 32 hexadecimal digits, of its inputs
  std::string checksum;                   // 16 hexadecimal digits: the header's checksum, which covers every byte
  int64_t tokens_in = -1;                 // index of the source that has its tokens; -1: they are in the shard
  int64_t first_source = 0;               // index in the manifest's sources from which its column "source" counts
  std::optional<WeightTotals> weights{};  // of its tokens as labels; nothing: each weighs 1
  bool operator==(const ShardEntry&) const = default;
};

struct SplitEntry {
  std::string name;  // "train", "validation", "test"
  int64_t documents = 0;
  int64_t tokens = 0;      // BOS and EOS included
  int64_t text_bytes = 0;  // of the tokens' text: the denominator of bits per byte
  std::string content;     // SequenceHash of the documents' contents, in order
  std::vector<ShardEntry> shards;
  // Totals of its tokens' weights as labels; nothing: each weighs 1.
  std::optional<WeightTotals> weights() const;
  int64_t counted_tokens() const;  // those whose weight is not 0
  void append(const SplitEntry& following);
  bool operator==(const SplitEntry&) const = default;
};

// What a build does with a bad record.
enum class OnError {
  kStop,     // ends, and names the record
  kSkip,     // leaves it out and counts it
  kReplace,  // repairs its text with U+FFFD and counts it; as kSkip if that is impossible
};
std::string_view on_error_name(OnError on_error);  // "stop"; stored in manifests: never change
OnError parse_on_error(std::string_view name);     // throws user_error

// The rules that change the tokens. All of them are part of the shards' identities.
struct BuildRules {
  std::string tokenizer = "bytes";  // to a build: as open_tokenizer takes it; in a manifest: Tokenizer::name()
  bool bos = false, eos = true;     // before and after each document that is text
  double validation = 0;            // share of the documents that is held out, by a hash of their content
  std::string split;                // shares by position instead (positional_split.h); empty: not used
  ReadRules read;
  OnError on_error = OnError::kStop;
  bool drop_empty = false;   // leave out records without text (an empty file is never a record)
  bool dedup_exact = false;  // leave out documents with the content of an earlier one
  bool in_place = false;     // tokens of token files stay there; shards refer to them (build/shards.h)
  // Only for arrays:
  int64_t n_fixed = 0;             // neurons that reading gives each array (array_stream.h); 0: its own
  std::string source_dataset;      // only arrays with this label; empty: all
  int64_t shard_tokens = 1 << 26;  // a group of documents is closed when its text reaches this number of bytes
  bool operator==(const BuildRules&) const = default;
};

// Counts of kept and of left-out records, over all splits.
struct RecordCounts {
  int64_t duplicates_dropped = 0;                              // by BuildRules::dedup_exact
  int64_t empty_dropped = 0;                                   // by BuildRules::drop_empty
  int64_t other_source_dataset = 0;                            // left out by BuildRules::source_dataset
  int64_t repaired = 0;                                        // with U+FFFD in place of invalid Unicode
  std::array<int64_t, kNumProblems> skipped{};                 // by problem
  int64_t invalid_utf8_documents = 0, invalid_utf8_bytes = 0;  // kept unchanged
  void add(const RecordCounts& other);
  int64_t num_skipped() const;
  bool operator==(const RecordCounts&) const = default;
};

// The part of a build that a manifest describes; not stored for a whole build.
struct BuildPart {
  int64_t index = 1, count = 1;       // counted from 1
  int64_t first_portion = 0;          // of the corpus
  std::vector<std::string> portions;  // identities
  bool operator==(const BuildPart&) const = default;
};
std::string part_manifest_name(int64_t index, int64_t count);  // "part-00001-of-00008.json"
bool is_part_manifest(std::string_view name);

// A dataset that was merged into another one: see merge_datasets.h.
struct MergedDataset {
  std::string identity, build;
  int64_t num_sources = 0;  // of the manifest's, in order
  BuildRules rules;
  bool operator==(const MergedDataset&) const = default;
};

struct DatasetManifest {
  std::string identity;  // 32 hexadecimal digits over rules, tokenizer, and the documents' content and order
  std::string build;     // 32 hexadecimal digits over everything that decides the shards; empty: unknown
  std::string tokenizer_hash;
  int64_t vocab_size = 0;
  int64_t bos = -1, eos = -1;  // ids; -1: the tokenizer has no such token
  BuildRules rules;
  std::vector<SourceFile> sources;  // in Discovery's order; those of merged datasets one after the other
  std::vector<SplitEntry> splits;
  // Counts of files: see Discovery.
  int64_t links_resolved = 0, duplicates_dropped = 0, empty_dropped = 0, skipped = 0, left_out = 0;
  RecordCounts records;
  int64_t special_text_seen = 0, invalid_bytes_replaced = 0;  // tokenizer::EncodeCounts over all documents
  BuildPart part;
  std::vector<MergedDataset> merged;  // empty: the dataset was built

  const SplitEntry* find_split(std::string_view name) const;
  bool has_split(std::string_view name) const;    // with documents in it
  std::vector<const ShardEntry*> shards() const;  // of all splits, in order
  // The default split of a validation set: "validation", or "train" if no document was held out.
  std::string held_out_split() const { return has_split("validation") ? "validation" : "train"; }
};

// A hash over the tokenizer, the BOS and EOS rules and the splits' contents. It ignores the shards' borders and the
// files' paths.
std::string dataset_identity(const DatasetManifest& manifest);

std::string manifest_text(const DatasetManifest& manifest);  // JSON, the same bytes for the same manifest
// `origin` names the file in errors. Throws user_error for another version or another kind of file, damaged() for a
// wrong checksum or a missing field.
DatasetManifest parse_manifest(std::string_view text, const std::string& origin);
// Throws user_error if `folder` holds no dataset.
DatasetManifest read_manifest(const Path& folder);

}  // namespace hearth::data
