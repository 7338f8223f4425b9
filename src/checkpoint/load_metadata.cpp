// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/load_metadata.h"

#include <map>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/program.h"

namespace hearth::checkpoint {
namespace {

// Gives each item of `.metadata` its checksum. Throws damaged() if the two files name different items.
void join_checksums(formats::Metadata& metadata, const Manifest& manifest, const Path& folder) {
  std::map<std::pair<std::string, int64_t>, const formats::Item*> known;
  for (const formats::Item& item : manifest.items) known[{item.file, item.offset}] = &item;
  size_t count = 0;
  for (formats::StoredTensor& tensor : metadata.tensors) {
    for (formats::Item& item : tensor.items) {
      const auto found = known.find({item.file, item.offset});
      if (found == known.end() || found->second->name != item.name || found->second->length != item.length ||
          found->second->box != item.box)
        throw damaged(fmt::format("{}: .metadata and {} disagree on {}", folder.string(), kManifestFile, item.name));
      item.checksum = found->second->checksum;
      note_progress();
      ++count;
    }
  }
  if (count != manifest.items.size())
    throw damaged(fmt::format("{}: .metadata lists {} items, {} lists {}", folder.string(), count, kManifestFile,
                              manifest.items.size()));
}

}  // namespace

formats::Metadata load_metadata(const Path& folder, const std::optional<Manifest>& manifest) {
  const Path path = folder / kMetadataFile;
  if (!path_exists(path)) throw damaged(fmt::format("{} is missing", path.string()), {}, kTakeAnother);
  const std::string text = read_file(path);
  if (manifest) {
    const int64_t length = static_cast<int64_t>(text.size());
    if (length != manifest->metadata_length)
      throw damaged(fmt::format("{} is damaged", path.string()),
                    fmt::format("{} bytes, expected {}", length, manifest->metadata_length), kTakeAnother);
    if (const uint64_t found = xxh3_64(text); found != manifest->metadata_checksum)
      throw damaged(fmt::format("{} is damaged", path.string()),
                    fmt::format("checksum {}, expected {}", to_hex64(found), to_hex64(manifest->metadata_checksum)),
                    kTakeAnother);
  }
  formats::Metadata metadata = formats::parse_metadata(std::as_bytes(std::span(text)), path.string());
  if (manifest) join_checksums(metadata, *manifest, folder);
  return metadata;
}

}  // namespace hearth::checkpoint
