// SPDX-License-Identifier: Apache-2.0
#include "data/build/folder.h"

#include <atomic>
#include <set>

#include "base/error.h"
#include "base/hash.h"
#include "base/parallel.h"
#include "base/quantity.h"
#include "data/build/bundle.h"
#include "data/build/differences.h"
#include "data/shard/shard_reader.h"

namespace hearth::data {
namespace {

bool is_shard(const std::string& name) { return name.ends_with(".shard"); }
bool is_leftover(const std::string& name) { return name.ends_with(".shard.tmp"); }

// Identity of the shard at `path`; empty if it is missing or unreadable.
std::string readable_identity(const Path& path) {
  try {
    return identity_of(ShardReader(path).header());
  } catch (const Error& e) {
    if (e.code() == ExitCode::kHardware) throw;
    return {};
  }
}

bool all_shards_are_whole(const Path& folder, const BuildPlan& plan, const DatasetManifest& manifest, int64_t threads) {
  const std::vector<const ShardEntry*> shards = manifest.shards();
  std::atomic<bool> whole{true};
  for_each_index(static_cast<int64_t>(shards.size()), threads, [&](int64_t i) {
    const ShardEntry& shard = *shards[static_cast<size_t>(i)];
    if (!whole) return;
    const auto header = find_whole_shard(folder / shard.file, shard.identity);
    if (!header || to_hex64(header->header_checksum) != shard.checksum ||
        planned_identity(plan, shard.file) != shard.identity)
      whole = false;
  });
  return whole;
}

bool tokenizer_is_kept(const Path& folder, const tokenizer::Tokenizer& tokenizer) {
  const Path path = folder / tokenizer.name();
  return tokenizer.file_content().empty() || (path_exists(path) && read_file(path) == tokenizer.file_content());
}

// Differences between the dataset in a folder ("there") and the planned one ("here").
std::string what_differs(const DatasetManifest& stored, const DatasetManifest& planned) {
  if (!stored.merged.empty())
    return fmt::format("`hearth data merge` made it from {}", counted(std::ssize(stored.merged), "dataset"));
  const std::string lines = differences(stored, planned, {"there", "here"});
  return lines.empty() ? "--portion-bytes, or the version of hearth, was another one" : lines;
}

// Removes a lock that a failed removal left behind; a held lock stays.
void remove_stale_lock(const Path& path) {
  if (path_exists(path) && FileLock::try_lock(path) != nullptr) remove_file(path);
}

}  // namespace

std::string BuildFolder::manifest_name() const {
  return options_.num_parts == 1 ? std::string(kManifestName) : part_manifest_name(options_.part, options_.num_parts);
}

// Parts that end at the same time write the same copy: each has its own temporary name.
std::string BuildFolder::tokenizer_temporary() const { return manifest_name() + ".tokenizer.tmp"; }

Path BuildFolder::lock_path() const {
  if (options_.num_parts == 1) return options_.out / "build.lock";
  return options_.out / fmt::format("part-{:05}-of-{:05}.lock", options_.part, options_.num_parts);
}

bool BuildFolder::is_ours(const std::string& name) const {
  const std::string shard = is_leftover(name) ? name.substr(0, name.size() - std::string_view(".tmp").size()) : name;
  return is_shard(shard) && (options_.num_parts == 1 || !is_of_another_part(plan_, shard));
}

bool BuildFolder::complete(DatasetManifest& manifest) {
  const Path path = options_.out / manifest_name();
  if (!path_exists(path)) return false;
  DatasetManifest stored;
  try {
    stored = parse_manifest(read_file(path), path.string());
  } catch (const Error& e) {
    if (e.code() == ExitCode::kHardware) throw;
    return false;  // another version, or damaged
  }
  if (stored.build != manifest.build || stored.rules != manifest.rules ||
      !tokenizer_is_kept(options_.out, *plan_.tokenizer) ||
      !all_shards_are_whole(options_.out, plan_, stored, options_.threads))
    return false;
  manifest.identity = stored.identity;
  manifest.splits = stored.splits;
  manifest.records = stored.records;
  manifest.special_text_seen = stored.special_text_seen;
  manifest.invalid_bytes_replaced = stored.invalid_bytes_replaced;
  const std::string text = manifest_text(manifest);
  if (read_file(path) != text) write_file_atomic(path, text);
  remove_stale_lock(lock_path());
  return true;
}

std::string BuildFolder::other_build(const DatasetManifest& planned) const {
  const Path path = options_.out / manifest_name();
  if (path_exists(path)) {
    try {
      const DatasetManifest stored = parse_manifest(read_file(path), path.string());
      if (stored.build != plan_.identity || stored.rules != options_.rules) return what_differs(stored, planned);
    } catch (const Error& e) {
      if (e.code() == ExitCode::kHardware) throw;
      if (e.code() != ExitCode::kDamaged) return e.message();  // another version; a damaged one proves nothing
    }
  }
  if (!path_exists(options_.out)) return {};
  for (const std::string& name : list_folder(options_.out)) {
    if (options_.num_parts == 1 && is_part_manifest(name))
      return fmt::format("it has a part of a build (--part): {}", name);
    if (options_.num_parts > 1 && name == kManifestName)
      return fmt::format("its {} is that of a whole dataset, and --part makes a part", name);
    if (!is_shard(name) || !is_ours(name)) continue;
    const std::string identity = readable_identity(options_.out / name);
    if (!identity.empty() && identity != planned_identity(plan_, name))
      return fmt::format("{} was made from other text or with other options, by a build that did not end", name);
  }
  return {};
}

void BuildFolder::refuse_other_build(const DatasetManifest& planned) const {
  const std::string why = other_build(planned);
  if (!why.empty())
    throw user_error(fmt::format("{} holds a different dataset", options_.out.string()), why,
                     "choose another --out, or add --overwrite to replace it");
}

void BuildFolder::open_for_writing() {
  make_folders(options_.out);
  lock_ = FileLock::try_lock(lock_path());
  if (lock_ == nullptr)
    throw user_error(fmt::format("another build is writing {}", options_.out.string()), "",
                     "wait for it, or choose another --out");
  remove_file(options_.out / manifest_name());
  for (const std::string& name : list_folder(options_.out)) {
    const Path path = options_.out / name;
    const bool other_whole = options_.num_parts == 1 ? is_part_manifest(name) : name == kManifestName;
    if (other_whole || name == manifest_name() + ".tmp" || name == tokenizer_temporary() ||
        (is_ours(name) && (is_leftover(name) || readable_identity(path) != planned_identity(plan_, name))))
      remove_file(path);
  }
}

void BuildFolder::finish(const DatasetManifest& manifest) {
  const std::string tokenizer_name = plan_.tokenizer->name();
  tokenizer::keep_tokenizer(options_.out, tokenizer_name, plan_.tokenizer->file_content(), tokenizer_temporary());
  std::set<std::string> named;
  for (const ShardEntry* shard : manifest.shards()) named.insert(shard->file);
  for (const std::string& name : list_folder(options_.out)) {
    const bool other_tokenizer = tokenizer::is_kept_name(name) && name != tokenizer_name;
    if (other_tokenizer || (is_shard(name) && is_ours(name) && !named.contains(name))) remove_file(options_.out / name);
  }
  write_file_atomic(options_.out / manifest_name(), manifest_text(manifest));
  remove_file(lock_path());
}

}  // namespace hearth::data
