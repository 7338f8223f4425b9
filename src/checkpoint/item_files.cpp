// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/item_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "checkpoint/load_metadata.h"

namespace hearth::checkpoint {

void ItemFiles::expect(const formats::Metadata& metadata, bool whole) {
  whole_ = whole;
  for (const formats::StoredTensor& tensor : metadata.tensors)
    for (const formats::Item& item : tensor.items) items_of_[item.file].push_back(&item);
  for (auto& [name, items] : items_of_) {
    std::ranges::sort(items, {}, &formats::Item::offset);
    int64_t end = 0;
    for (const formats::Item* item : items) {
      if (whole && item->offset != end)
        throw damaged(fmt::format("{}: bytes {} to {} belong to no item", (folder_ / name).string(), end, item->offset),
                      {}, kTakeAnother);
      end = item->offset + item->length;
    }
  }
}

void ItemFiles::check_size(const std::string& name, const Items& items, int64_t size_bytes) const {
  const Path path = folder_ / name;
  for (const formats::Item* item : items) {
    if (item->length > size_bytes - item->offset)
      throw damaged(fmt::format("{} is cut short: {}", item->name, path.string()),
                    fmt::format("{} bytes, expected at least {}", size_bytes, item->offset + item->length),
                    kTakeAnother);
  }
  const int64_t end = items.back()->offset + items.back()->length;
  if (whole_ && end != size_bytes)
    throw damaged(fmt::format("{} is damaged", path.string()), fmt::format("{} bytes, expected {}", size_bytes, end),
                  kTakeAnother);
}

Error ItemFiles::missing(const std::string& name, const Items& items) const {
  return damaged(fmt::format("{} is missing", (folder_ / name).string()),
                 fmt::format("{} was in it", items.front()->name), kTakeAnother);
}

void ItemFiles::check_sizes() const {
  std::map<std::string, int64_t> sizes;
  for (const FileEntry& file : files_under(folder_)) sizes[file.path.string()] = file.bytes;
  for (const auto& [name, items] : items_of_) {
    const auto found = sizes.find(name);
    if (found != sizes.end()) {
      check_size(name, items, found->second);
    } else if (path_exists(folder_ / name)) {
      check_size(name, items, File::open_read(folder_ / name).size_bytes());
    } else {
      throw missing(name, items);
    }
  }
}

const File& ItemFiles::open(const std::string& name) {
  const auto found = std::ranges::find(open_, name, &Open::name);
  if (found != open_.end()) {
    std::rotate(open_.begin(), found, found + 1);
    return open_.front().file;
  }
  const auto items = items_of_.find(name);
  if (items != items_of_.end() && !path_exists(folder_ / name)) throw missing(name, items->second);
  File file = File::open_read(folder_ / name);
  if (items != items_of_.end()) check_size(name, items->second, file.size_bytes());
  if (open_.size() == kMostOpen) open_.pop_back();
  open_.insert(open_.begin(), Open{name, std::move(file)});
  return open_.front().file;
}

}  // namespace hearth::checkpoint
