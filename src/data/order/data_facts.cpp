// SPDX-License-Identifier: Apache-2.0
#include "data/order/data_facts.h"

#include <deque>

namespace hearth::data {

std::vector<MeasuredSplit> measured_splits(const config::RunConfig& config, const RunManifests& manifests) {
  std::vector<MeasuredSplit> splits;
  if (config.validation.freq == 0) return splits;
  const auto& given = config.validation.set;
  for (size_t i = 0; i < manifests.sets.size(); ++i) {
    const DatasetManifest* manifest = manifests.sets[i];
    if (manifest != nullptr)
      splits.push_back({i, given[i].split.empty() ? manifest->held_out_split() : given[i].split});
  }
  if (!given.empty()) return splits;
  for (size_t i = 0; i < manifests.sources.size(); ++i)
    if (manifests.sources[i]->has_split("validation")) splits.push_back({i, "validation"});
  return splits;
}

plan::DataFacts data_facts(const config::RunConfig& config, const RunManifests& manifests) {
  plan::DataFacts facts;
  if (!manifests.sources.empty()) facts.vocab_size = manifests.sources.front()->vocab_size;
  const auto weighs = [](const SplitEntry* split) { return split != nullptr && split->weights().has_value(); };
  int64_t tokens = 0, counted = 0;
  for (const DatasetManifest* source : manifests.sources) {
    const SplitEntry* split = source->find_split("train");
    if (split == nullptr) continue;
    facts.weighs_labels = facts.weighs_labels || weighs(split);
    tokens += split->tokens;
    counted += split->counted_tokens();
  }
  if (tokens > 0) facts.counted_share = static_cast<double>(counted) / static_cast<double>(tokens);
  const auto& measured = config.validation.set.empty() ? manifests.sources : manifests.sets;
  for (const MeasuredSplit& split : measured_splits(config, manifests))
    facts.weighs_labels = facts.weighs_labels || weighs(measured[split.number]->find_split(split.split));
  return facts;
}

plan::DataFacts data_facts(const config::RunConfig& config) {
  std::deque<DatasetManifest> read;  // references stay valid
  const auto manifest_of = [&](const std::string& path, bool needed) -> const DatasetManifest* {
    const Path folder = config.resolve(path);
    if (!needed && !path_exists(folder / kManifestName)) return nullptr;
    return &read.emplace_back(read_manifest(folder));
  };
  RunManifests manifests;
  // Without model.vocab_size the tokenizer's size is needed.
  bool needed = config.model.vocab_size == 0;
  for (const config::DataSource& source : config.sources()) {
    if (const DatasetManifest* manifest = manifest_of(source.path, needed)) manifests.sources.push_back(manifest);
    needed = false;
  }
  if (config.validation.freq > 0)
    for (const config::ValidationSet& set : config.validation.set)
      manifests.sets.push_back(manifest_of(set.path, /*needed=*/false));
  return data_facts(config, manifests);
}

}  // namespace hearth::data
