// SPDX-License-Identifier: Apache-2.0
#include "data/build/build.h"

#include <algorithm>
#include <mutex>
#include <set>

#include "base/error.h"
#include "base/hash.h"
#include "base/quantity.h"
#include "data/build/bundle.h"
#include "data/build/bundle_queue.h"
#include "data/build/folder.h"
#include "data/build/plan.h"

namespace hearth::data {
namespace {

// The output of a portion, in the order of its bundles.
struct BuiltPortion {
  std::vector<std::array<BundleSplit, kNumSplits>> bundles;
  RecordCounts counts;
};

class Build {
 public:
  Build(const BuildOptions& options, const BuildPlan& plan, BuildProgress& progress)
      : options_(options), plan_(plan), progress_(progress), portions_(plan.portions.size()) {}

  void run() {
    for (size_t u = plan_.first_portion; u < plan_.end_portion; ++u)
      progress_.source_bytes_total += plan_.portions[u].size_bytes;
    run_portions(
        plan_.first_portion, plan_.end_portion, options_.threads,
        [this](size_t portion, const auto& emit) { read(portion, emit); }, [this](Bundle bundle) { write(bundle); });
  }

  const std::vector<BuiltPortion>& portions() const { return portions_; }

 private:
  // Reads documents in order. A bundle is closed when it reaches rules.shard_tokens bytes, or with the portion.
  void read(size_t portion, const std::function<void(Bundle)>& emit) {
    PortionReader records(plan_.found.sources, plan_.portions[portion], options_.rules);
    int64_t bytes_before = 0, index = 0;
    int64_t duplicates = 0, kept = 0;
    uint32_t number = 0;
    Bundle bundle(portion, index);
    for (Document document; records.next(document); ++number) {
      if (is_duplicate(portion, number)) {
        ++duplicates;
        continue;
      }
      check_kind(document);
      bundle.add(document, plan_.positions                         ? plan_.positions->split_of(portion, kept)
                           : plan_.holdout.contains(document.hash) ? 1
                                                                   : 0);
      ++kept;
      progress_.source_bytes_done += records.bytes_read() - bytes_before;
      bytes_before = records.bytes_read();
      if (bundle.data_bytes() < options_.rules.shard_tokens) continue;
      emit(std::move(bundle));
      bundle = Bundle(portion, ++index);
    }
    emit(std::move(bundle));
    progress_.source_bytes_done += plan_.portions[portion].size_bytes - bytes_before;
    const std::lock_guard lock(mutex_);
    portions_[portion].counts = records.counts();
    portions_[portion].counts.duplicates_dropped = duplicates;
  }

  // Text needs a tokenizer of text, an array one of arrays.
  void check_kind(const Document& document) const {
    if ((document.array != nullptr) == plan_.arrays.has_value()) return;
    const std::string& path = plan_.found.sources[document.source].path;
    if (document.array != nullptr)
      throw user_error(fmt::format("{} is an array", path),
                       fmt::format("tokenizer \"{}\" has no tokens for it", plan_.tokenizer->name()),
                       "give --tokenizer spikes, or a tokenizer.patches");
    throw user_error(
        fmt::format("{} is not an array", path),
        fmt::format("tokenizer \"{}\" has only tokens for arrays", plan_.tokenizer->name()),
        "leave the file out (--include \"*.parquet\"), name a table's column of arrays with --text-key, or "
        "give a tokenizer of text");
  }

  bool is_duplicate(size_t portion, uint32_t number) const {
    return !plan_.duplicates.empty() && std::ranges::binary_search(plan_.duplicates[portion], number);
  }

  void write(const Bundle& bundle) {
    auto splits = write_bundle(bundle, plan_, options_, progress_);
    const std::lock_guard lock(mutex_);
    auto& bundles = portions_[bundle.portion()].bundles;
    bundles.resize(std::max(bundles.size(), static_cast<size_t>(bundle.index()) + 1));
    bundles[static_cast<size_t>(bundle.index())] = std::move(splits);
  }

  const BuildOptions& options_;
  const BuildPlan& plan_;
  BuildProgress& progress_;
  std::mutex mutex_;
  std::vector<BuiltPortion> portions_;
};

// The manifest's fields that the plan decides.
DatasetManifest planned_manifest(const BuildPlan& plan, const BuildOptions& options) {
  DatasetManifest m;
  m.build = plan.identity;
  m.tokenizer_hash = plan.tokenizer->content_hash();
  m.vocab_size = plan.tokenizer->vocab_size();
  if (plan.tokenizer->bos()) m.bos = *plan.tokenizer->bos();
  if (plan.tokenizer->eos()) m.eos = *plan.tokenizer->eos();
  m.rules = options.rules;
  m.sources = plan.found.sources;
  m.links_resolved = plan.found.links_resolved;
  m.duplicates_dropped = plan.found.duplicates_dropped;
  m.empty_dropped = plan.found.empty_dropped;
  m.skipped = plan.found.skipped;
  m.left_out = std::ssize(plan.found.left_out);
  m.part = {options.part, options.num_parts, 0, {}};
  if (options.num_parts > 1) {
    m.part.first_portion = static_cast<int64_t>(plan.first_portion);
    for (size_t u = plan.first_portion; u < plan.end_portion; ++u)
      m.part.portions.push_back(plan.portion_identities[u]);
  }
  return m;
}

// Adds the counts of the portions.
void add_units(DatasetManifest& m, const std::vector<BuiltPortion>& portions) {
  const size_t num_splits = !m.rules.split.empty() ? kNumSplits : m.rules.validation > 0 ? 2 : 1;
  std::vector<SequenceHash> content(num_splits);
  for (size_t s = 0; s < num_splits; ++s) m.splits.emplace_back().name = kSplitNames[s];
  for (const BuiltPortion& portion : portions) {
    m.records.add(portion.counts);
    for (const auto& bundle : portion.bundles) {
      for (size_t s = 0; s < num_splits; ++s) {
        if (!bundle[s].shard) continue;
        SplitEntry& split = m.splits[s];
        split.shards.push_back(*bundle[s].shard);
        split.documents += bundle[s].shard->documents;
        split.tokens += bundle[s].shard->tokens;
        split.text_bytes += bundle[s].text_bytes;
        m.special_text_seen += bundle[s].special_text_seen;
        m.invalid_bytes_replaced += bundle[s].invalid_bytes_replaced;
        content[s].append(bundle[s].content);
      }
    }
  }
  for (size_t s = 0; s < num_splits; ++s) m.splits[s].content = content[s].hex();
  m.identity = dataset_identity(m);
}

void refuse_empty(const DatasetManifest& m) {
  int64_t documents = 0;
  for (const SplitEntry& split : m.splits) documents += split.documents;
  if (documents > 0) return;
  if (m.records.other_source_dataset > 0)
    throw user_error(
        fmt::format("no array has the source_dataset \"{}\"", m.rules.source_dataset),
        fmt::format("{} left out: of another source_dataset", counted(m.records.other_source_dataset, "array")),
        "give --source-dataset as written in metadata.jsonl or in the tables' column of that name");
  throw user_error(
      "there is no text to build from",
      fmt::format("{} gave no document ({} with a problem, {} empty)", counted(std::ssize(m.sources), "file"),
                  counted(m.records.num_skipped(), "record"), m.records.empty_dropped),
      "give files that hold text, or other rules");
}

}  // namespace

BuildResult build_dataset(const BuildOptions& given, BuildProgress& progress) {
  BuildOptions options = given;
  auto tokenizer =
      tokenizer::open_tokenizer(given.rules.tokenizer, {given.bos_token, given.eos_token, {}, given.without_meta_cuts});
  options.rules.tokenizer = tokenizer->name();
  options.rules.bos = given.bos.value_or(given.rules.bos || tokenizer->adds_bos());
  options.rules.eos = given.eos.value_or(given.rules.eos && tokenizer->has_text());
  if (tokenizer->arrays() != nullptr && (given.bos || given.eos))
    throw user_error(fmt::format("{} is only for text", given.bos ? "--bos" : "--eos"),
                     "a stream of arrays has BOS before every column of patches and no EOS", "remove it");
  options.rules.read.vocab_size = tokenizer->vocab_size();
  if (options.rules.read.text_keys.empty())
    options.rules.read.text_keys = {default_text_key(tokenizer->arrays() != nullptr)};
  BuildPlan plan = plan_build(options, std::move(tokenizer), progress.hashing);
  BuildFolder folder(options, plan);
  BuildResult result;
  result.manifest = planned_manifest(plan, options);
  result.left_out = plan.found.left_out;
  result.texts_beside = plan.found.texts_beside;
  result.texts_about = plan.found.texts_about;
  if (folder.complete(result.manifest)) {
    result.was_complete = true;
    result.shards_kept = std::ssize(result.manifest.shards());
    return result;
  }
  if (!options.overwrite) folder.refuse_other_build(result.manifest);

  folder.open_for_writing();
  if (options.rules.dedup_exact)
    plan.duplicates = find_duplicates(plan.found.sources, plan.portions, options.rules, options.threads);
  if (!options.rules.split.empty())
    plan.positions.emplace(plan.found.sources, plan.portions, options.rules, plan.duplicates, options.threads);
  Build build(options, plan, progress);
  build.run();
  for (const BuiltPortion& portion : build.portions()) {
    for (const auto& bundle : portion.bundles) {
      for (const BundleSplit& split : bundle)
        if (split.shard) ++(split.kept ? result.shards_kept : result.shards_written);
    }
  }
  add_units(result.manifest, build.portions());
  if (options.num_parts == 1) refuse_empty(result.manifest);
  folder.finish(result.manifest);
  return result;
}

}  // namespace hearth::data
