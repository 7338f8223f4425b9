// SPDX-License-Identifier: Apache-2.0
#include "data/shard/manifest.h"

#include <algorithm>
#include <cstdio>
#include <numeric>

#include "base/error.h"
#include "base/hash.h"
#include "data/shard/sequence_hash.h"
#include "recordings/vocabulary.h"
#include "tokenizer/tokenizer.h"

namespace hearth::data {
namespace {

constexpr std::array<std::string_view, 3> kOnErrorNames = {"stop", "skip", "replace"};

}  // namespace

std::string_view on_error_name(OnError on_error) { return kOnErrorNames.at(static_cast<size_t>(on_error)); }

OnError parse_on_error(std::string_view name) {
  const auto* found = std::ranges::find(kOnErrorNames, name);
  if (found == kOnErrorNames.end())
    throw user_error(fmt::format("--on-error {} is unknown", name), "", "one of: stop, skip, replace");
  return static_cast<OnError>(found - kOnErrorNames.begin());
}

void RecordCounts::add(const RecordCounts& other) {
  duplicates_dropped += other.duplicates_dropped;
  empty_dropped += other.empty_dropped;
  other_source_dataset += other.other_source_dataset;
  repaired += other.repaired;
  for (size_t i = 0; i < skipped.size(); ++i) skipped[i] += other.skipped[i];
  invalid_utf8_documents += other.invalid_utf8_documents;
  invalid_utf8_bytes += other.invalid_utf8_bytes;
}

int64_t RecordCounts::num_skipped() const { return std::accumulate(skipped.begin(), skipped.end(), int64_t{0}); }

std::optional<WeightTotals> SplitEntry::weights() const {
  if (std::ranges::none_of(shards, [](const ShardEntry& shard) { return shard.weights.has_value(); })) return {};
  WeightTotals all;
  for (const ShardEntry& shard : shards) {
    all.is_mask = all.is_mask && (!shard.weights || shard.weights->is_mask);
    all.counted += shard.weights ? shard.weights->counted : shard.tokens;
    all.sum += shard.weights ? shard.weights->sum : static_cast<double>(shard.tokens);
  }
  return all;
}

int64_t SplitEntry::counted_tokens() const {
  const auto totals = weights();
  return totals ? totals->counted : tokens;
}

void SplitEntry::append(const SplitEntry& following) {
  SequenceHash both = SequenceHash::parse(content, documents);
  both.append(SequenceHash::parse(following.content, following.documents));
  content = both.hex();
  documents += following.documents;
  tokens += following.tokens;
  text_bytes += following.text_bytes;
  shards.insert(shards.end(), following.shards.begin(), following.shards.end());
}

const SplitEntry* DatasetManifest::find_split(std::string_view name) const {
  const auto found = std::ranges::find(splits, name, &SplitEntry::name);
  return found == splits.end() ? nullptr : &*found;
}

bool DatasetManifest::has_split(std::string_view name) const {
  const SplitEntry* entry = find_split(name);
  return entry != nullptr && entry->tokens > 0;
}

std::vector<const ShardEntry*> DatasetManifest::shards() const {
  std::vector<const ShardEntry*> all;
  for (const SplitEntry& split : splits)
    for (const ShardEntry& shard : split.shards) all.push_back(&shard);
  return all;
}

std::string part_manifest_name(int64_t index, int64_t count) {
  return fmt::format("part-{:05}-of-{:05}.json", index, count);
}

bool is_part_manifest(std::string_view name) {
  long long index = 0, count = 0;
  return std::sscanf(std::string(name).c_str(), "part-%lld-of-%lld", &index, &count) == 2 &&
         part_manifest_name(index, count) == name;
}

std::string dataset_identity(const DatasetManifest& m) {
  StreamingHash hash;
  hash.update(fmt::format("dataset {} {} {}\n", m.tokenizer_hash, m.rules.bos, m.rules.eos));
  if (recordings::is_name_of_arrays(m.rules.tokenizer)) hash.update(fmt::format("n_fixed {}\n", m.rules.n_fixed));
  for (const SplitEntry& split : m.splits)
    hash.update(fmt::format("split {} {} {}\n", split.name, split.documents, split.content));
  return hash.digest_128_hex();
}

}  // namespace hearth::data
