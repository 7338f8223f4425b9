// SPDX-License-Identifier: Apache-2.0
#include "data/build/merge_parts.h"

#include <algorithm>

#include "base/error.h"
#include "base/hash.h"
#include "data/build/differences.h"

namespace hearth::data {
namespace {

std::vector<DatasetManifest> read_parts(const Path& folder) {
  std::vector<DatasetManifest> parts;
  for (const std::string& name : list_folder(folder)) {
    if (is_part_manifest(name)) parts.push_back(parse_manifest(read_file(folder / name), (folder / name).string()));
  }
  if (parts.empty())
    throw user_error(fmt::format("{} has no part of a build", folder.string()), "",
                     "make the parts with `hearth data build --part I/N` first");
  const int64_t count = parts[0].part.count;
  for (const DatasetManifest& part : parts) {
    if (part.part.count != count)
      throw user_error(fmt::format("{} holds parts of different builds", folder.string()),
                       fmt::format("one is a part of {}, another a part of {}", count, part.part.count),
                       "build with one N in --part I/N");
  }
  std::ranges::sort(parts, {}, [](const DatasetManifest& part) { return part.part.index; });
  for (int64_t i = 1; i <= count; ++i) {
    if (i > static_cast<int64_t>(parts.size()) || parts[static_cast<size_t>(i - 1)].part.index != i)
      throw user_error(fmt::format("part {} of {} is missing in {}", i, count, folder.string()), "",
                       fmt::format("run `hearth data build --part {}/{}` again", i, count));
  }
  return parts;
}

Error different(const Path& folder, const DatasetManifest& first, const DatasetManifest& part, std::string_view what) {
  const std::string name = fmt::format("in part {}", part.part.index);
  const std::string lines = differences(first, part, {"in part 1", name});
  return user_error(
      fmt::format("the parts in {} do not belong together", folder.string()),
      fmt::format("part {} has other {} than part 1{}{}", part.part.index, what, lines.empty() ? "" : ": ", lines),
      "build all parts from the same files with the same options and the same hearth");
}

// Each part has the hashes of the files that it read.
void join_sources(const Path& folder, DatasetManifest& whole, const DatasetManifest& part) {
  const auto same = [](const SourceFile& a, const SourceFile& b) {
    return a.path == b.path && a.real_path == b.real_path && a.size_bytes == b.size_bytes && a.format == b.format &&
           a.compression == b.compression && a.label_file == b.label_file &&
           (a.hash.empty() || b.hash.empty() || a.hash == b.hash);
  };
  if (!std::equal(whole.sources.begin(), whole.sources.end(), part.sources.begin(), part.sources.end(), same) ||
      whole.links_resolved != part.links_resolved || whole.duplicates_dropped != part.duplicates_dropped ||
      whole.empty_dropped != part.empty_dropped || whole.skipped != part.skipped)
    throw different(folder, whole, part, "files");
  for (size_t i = 0; i < whole.sources.size(); ++i) {
    if (whole.sources[i].hash.empty()) whole.sources[i].hash = part.sources[i].hash;
  }
}

void check_shards(const Path& folder, const DatasetManifest& manifest) {
  for (const ShardEntry* shard : manifest.shards()) {
    std::error_code error;
    const auto size = std::filesystem::file_size(folder / shard->file, error);
    if (error || static_cast<int64_t>(size) != shard->size_bytes)
      throw damaged(fmt::format("shard {} is missing or cut short", (folder / shard->file).string()), "",
                    "run the `hearth data build --part I/N` that made it again");
  }
}

}  // namespace

DatasetManifest merge_parts(const Path& folder) {
  if (path_exists(folder / kManifestName))
    throw user_error(fmt::format("{} is a dataset already", folder.string()),
                     fmt::format("there is a {}", kManifestName), "there is nothing to merge");
  const std::vector<DatasetManifest> parts = read_parts(folder);
  DatasetManifest whole = parts[0];
  StreamingHash build;
  int64_t next_portion = 0;
  for (const DatasetManifest& part : parts) {
    if (part.rules != whole.rules) throw different(folder, whole, part, "options");
    if (part.tokenizer_hash != whole.tokenizer_hash || part.splits.size() != whole.splits.size())
      throw different(folder, whole, part, "tokenizer");
    if (part.part.first_portion != next_portion) throw different(folder, whole, part, "files");
    next_portion += static_cast<int64_t>(part.part.portions.size());
    for (const std::string& portion : part.part.portions) build.update(portion);
    if (&part == &parts[0]) continue;
    join_sources(folder, whole, part);
    for (size_t s = 0; s < whole.splits.size(); ++s) whole.splits[s].append(part.splits[s]);
    whole.records.add(part.records);
    whole.special_text_seen += part.special_text_seen;
    whole.invalid_bytes_replaced += part.invalid_bytes_replaced;
  }
  whole.part = {};
  whole.build = build.digest_128_hex();
  whole.identity = dataset_identity(whole);
  check_shards(folder, whole);
  write_file_atomic(folder / kManifestName, manifest_text(whole));
  for (const DatasetManifest& part : parts) remove_file(folder / part_manifest_name(part.part.index, part.part.count));
  return whole;
}

}  // namespace hearth::data
