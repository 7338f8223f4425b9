// SPDX-License-Identifier: Apache-2.0
#include "data/build/merge_datasets.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "base/error.h"
#include "base/hash.h"
#include "data/build/plan.h"
#include "data/shard/dataset.h"
#include "data/shard/open_shard.h"
#include "data/shard/sequence_hash.h"
#include "recordings/vocabulary.h"

namespace hearth::data {
namespace {

Error different(const Dataset& a, const Dataset& b, std::string_view what, const std::string& of_a,
                const std::string& of_b) {
  return user_error(fmt::format("{} and {} cannot be one dataset", a.folder().string(), b.folder().string()),
                    fmt::format("they have different {}: {} and {}", what, of_a, of_b),
                    "build one again with the other's rules, or train on both with [[data.source]]");
}

void check_same_tokens(const Dataset& a, const Dataset& b) {
  const DatasetManifest &first = a.manifest(), &other = b.manifest();
  const auto where = [](bool used) { return used ? "document" : "none"; };
  if (first.tokenizer_hash != other.tokenizer_hash)
    throw different(a, b, "tokenizers", fmt::format("{} ({})", first.rules.tokenizer, first.tokenizer_hash),
                    fmt::format("{} ({})", other.rules.tokenizer, other.tokenizer_hash));
  if (first.rules.bos != other.rules.bos)
    throw different(a, b, "--bos", where(first.rules.bos), where(other.rules.bos));
  if (first.rules.eos != other.rules.eos)
    throw different(a, b, "--eos", where(first.rules.eos), where(other.rules.eos));
  if (first.rules.n_fixed != other.rules.n_fixed)
    throw different(a, b, "--n-fixed", std::to_string(first.rules.n_fixed), std::to_string(other.rules.n_fixed));
}

// The datasets from which a dataset was merged, or itself.
std::vector<MergedDataset> origins_of(const DatasetManifest& m) {
  if (!m.merged.empty()) return m.merged;
  return {{m.identity, m.build, static_cast<int64_t>(m.sources.size()), m.rules}};
}

// A build takes files of equal content once. The same file may give two columns, or arrays of two kinds.
void check_no_file_twice(const std::vector<Dataset>& datasets) {
  using Key = std::tuple<std::string, std::vector<std::string>, std::string>;
  std::map<Key, std::pair<const Dataset*, const SourceFile*>> seen;
  for (const Dataset& dataset : datasets) {
    auto source = dataset.manifest().sources.begin();
    for (const MergedDataset& origin : origins_of(dataset.manifest())) {
      for (int64_t i = 0; i < origin.num_sources && source != dataset.manifest().sources.end(); ++i, ++source) {
        if (source->hash.empty()) continue;
        const auto [first, is_new] = seen.emplace(
            Key{source->hash, origin.rules.read.text_keys, origin.rules.source_dataset}, std::pair(&dataset, &*source));
        if (is_new || first->second.first == &dataset) continue;
        throw user_error(fmt::format("{} and {} hold the same documents", first->second.first->folder().string(),
                                     dataset.folder().string()),
                         fmt::format("{} and {} have the same content, which a build would take once",
                                     first->second.second->path, source->path),
                         "leave one dataset out, or build both from all their files at once");
      }
    }
  }
}

// The rules of the whole. Rules in which the datasets differ are unset here, and only in DatasetManifest::merged.
BuildRules common_rules(const std::vector<MergedDataset>& origins) {
  BuildRules rules = origins.front().rules;
  for (const MergedDataset& origin : origins) {
    if (origin.rules.validation != rules.validation) rules.validation = 0;
    if (origin.rules.source_dataset != rules.source_dataset) rules.source_dataset.clear();
    rules.in_place = rules.in_place && origin.rules.in_place;
    if (origin.rules.read.loss_keys != rules.read.loss_keys) rules.read.loss_keys.clear();
    if (origin.rules.read.labels_key != rules.read.labels_key) rules.read.labels_key.clear();
    if (origin.rules.read.weights_key != rules.read.weights_key) rules.read.weights_key.clear();
  }
  rules.split.clear();        // positions in each dataset, not in the whole
  rules.dedup_exact = false;  // in each dataset, not in the whole
  return rules;
}

std::vector<std::string> notes_on(const std::vector<MergedDataset>& origins) {
  std::vector<std::string> notes;
  bool deduplicated = false, by_position = false, other_holdout = false;
  for (const MergedDataset& origin : origins) {
    deduplicated = deduplicated || origin.rules.dedup_exact;
    by_position = by_position || !origin.rules.split.empty();
    other_holdout = other_holdout || origin.rules.validation != origins.front().rules.validation;
  }
  if (deduplicated)
    notes.emplace_back(
        "repeated documents were left out of each dataset alone: a document in two datasets is there twice");
  if (by_position) notes.emplace_back("each dataset was split by position separately");
  if (other_holdout)
    notes.emplace_back("different shares were held out: a text in two datasets may be in both training and validation");
  return notes;
}

class Merge {
 public:
  explicit Merge(const std::vector<Dataset>& datasets) : datasets_(datasets) {}

  DatasetManifest plan() {
    DatasetManifest m = datasets_.front().manifest();
    StreamingHash build;
    m.merged.clear();
    m.sources.clear();
    m.splits.clear();
    m.records = {};
    m.links_resolved = m.duplicates_dropped = m.empty_dropped = m.skipped = m.left_out = 0;
    m.special_text_seen = m.invalid_bytes_replaced = 0;
    for (const Dataset& dataset : datasets_) {
      const DatasetManifest& part = dataset.manifest();
      build.update(fmt::format("joined {} {}\n", part.identity, part.build));
      for (MergedDataset& origin : origins_of(part)) m.merged.push_back(std::move(origin));
      m.sources.insert(m.sources.end(), part.sources.begin(), part.sources.end());
      m.links_resolved += part.links_resolved;
      m.duplicates_dropped += part.duplicates_dropped;
      m.empty_dropped += part.empty_dropped;
      m.skipped += part.skipped;
      m.left_out += part.left_out;
      m.records.add(part.records);
      m.special_text_seen += part.special_text_seen;
      m.invalid_bytes_replaced += part.invalid_bytes_replaced;
    }
    for (const std::string_view name : kSplitNames) add_split(m, name);
    m.rules = common_rules(m.merged);
    m.build = build.digest_128_hex();
    m.identity = dataset_identity(m);
    return m;
  }

  // Calls link(its path, its entry in the whole) for each shard; after plan().
  template <typename Link>
  void for_each_shard(const DatasetManifest& m, const Link& link) const {
    size_t i = 0;
    for (const ShardEntry* shard : m.shards()) link(from_[i++], *shard);
  }

 private:
  void add_split(DatasetManifest& m, std::string_view name) {
    SplitEntry whole;
    whole.name = name;
    whole.content = SequenceHash().hex();
    int64_t first_source = 0;
    bool found = false;
    for (size_t d = 0; d < datasets_.size(); ++d) {
      const DatasetManifest& manifest = datasets_[d].manifest();
      if (const SplitEntry* split = manifest.find_split(name)) {
        found = true;
        SplitEntry part = *split;
        size_t number = whole.shards.size();
        for (ShardEntry& shard : part.shards) {
          from_.push_back(datasets_[d].folder() / shard.file);
          shard.file = fmt::format("{}-{:06}-{:04}.shard", name, d, number++);
          shard.first_source += first_source;
          if (shard.tokens_in >= 0) shard.tokens_in += first_source;
        }
        whole.append(part);
      }
      first_source += std::ssize(manifest.sources);
    }
    if (found) m.splits.push_back(std::move(whole));
  }

  const std::vector<Dataset>& datasets_;
  std::vector<Path> from_;  // of each shard, in order
};

void check_free(const std::vector<Path>& folders, const Path& out, bool overwrite) {
  if (!path_exists(out)) return;
  std::error_code error;
  for (const Path& folder : folders) {
    if (std::filesystem::equivalent(folder, out, error))
      throw user_error(fmt::format("{} is one of the datasets that are merged", out.string()), "",
                       "choose another --out");
  }
  if (!overwrite)
    throw user_error(fmt::format("{} exists already", out.string()), "",
                     "choose another --out, or add --overwrite to replace a dataset there");
  if (!path_exists(out / kManifestName))
    throw user_error(fmt::format("{} is not a dataset", out.string()),
                     fmt::format("there is no {} in it", kManifestName), "choose another --out");
}

// Whether the folder already holds this dataset.
bool is_complete(const Path& out, const DatasetManifest& m) {
  if (!path_exists(out / kManifestName) || read_file(out / kManifestName) != manifest_text(m)) return false;
  try {
    const Dataset dataset = Dataset::open(out);
    return dataset.open_tokenizer() != nullptr;
  } catch (const Error& e) {
    if (e.code() == ExitCode::kHardware) throw;
    return false;  // damaged: made again, if allowed
  }
}

}  // namespace

MergeResult merge_datasets(const std::vector<Path>& folders, const Path& out, bool overwrite) {
  HEARTH_CHECK(folders.size() >= 2);
  std::vector<Dataset> datasets;
  for (const Path& folder : folders) datasets.push_back(Dataset::open(folder));
  for (size_t b = 1; b < datasets.size(); ++b) {
    check_same_tokens(datasets[0], datasets[b]);
    for (size_t a = 0; a < b; ++a) {
      if (datasets[a].manifest().identity == datasets[b].manifest().identity)
        throw user_error(fmt::format("{} and {} are the same dataset", folders[a].string(), folders[b].string()), "",
                         "name it once");
    }
  }
  check_no_file_twice(datasets);
  Path temporary = out;
  temporary += ".tmp";
  Merge merge(datasets);
  MergeResult result;
  result.manifest = merge.plan();
  result.notes = notes_on(result.manifest.merged);
  if (is_complete(out, result.manifest)) {
    result.was_complete = true;
    return result;
  }
  check_free(folders, out, overwrite);
  remove_tree(temporary);
  make_folders(temporary);
  const bool arrays = recordings::is_name_of_arrays(result.manifest.rules.tokenizer);
  merge.for_each_shard(result.manifest, [&](const Path& from, const ShardEntry& shard) {
    const OpenShard checked(from, shard, arrays);
    ++(link_or_copy(from, temporary / shard.file) ? result.shards_linked : result.shards_copied);
  });
  const auto tokenizer = datasets.front().open_tokenizer();
  tokenizer::keep_tokenizer(temporary, tokenizer->name(), tokenizer->file_content(), "tokenizer.tmp");
  write_file_atomic(temporary / kManifestName, manifest_text(result.manifest));
  Path aside = out;
  aside += ".old";
  replace_folder(temporary, out, aside);
  return result;
}

}  // namespace hearth::data
