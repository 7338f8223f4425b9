// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/verify.h"

#include <algorithm>
#include <optional>
#include <tuple>
#include <vector>

#include <fmt/format.h>

#include "base/error.h"
#include "checkpoint/load.h"

namespace hearth::checkpoint {
namespace {

template <typename Body>
bool whole(Verification& result, Body body) {
  try {
    body();
    return true;
  } catch (const Error& e) {
    if (e.code() != ExitCode::kDamaged) throw;
    result.problems.push_back(e.why().empty() ? e.message() : fmt::format("{}: {}", e.message(), e.why()));
    return false;
  }
}

std::optional<Reader> open_frame(const Path& folder, Verification& result) {
  std::optional<Reader> reader;
  result.has_manifest = path_exists(folder / kManifestFile);
  if (!whole(result, [&] { reader = Reader::open(folder); })) return reader;
  if (result.has_manifest && reader->manifest().tokenizer != "bytes") whole(result, [&] { reader->open_tokenizer(); });
  return reader;
}

constexpr size_t kBits = 8;

struct ItemOfTensor {
  const formats::StoredTensor* tensor;
  const formats::Item* item;
};

// The items whose number in metadata() `wanted` accepts. Neighbours are in one file: with another order each item would
// open its file anew.
template <typename Wanted>
std::vector<ItemOfTensor> items_in_file_order(const Reader& reader, Wanted wanted) {
  std::vector<ItemOfTensor> items;
  size_t i = 0;
  for (const formats::StoredTensor& tensor : reader.metadata().tensors)
    for (const formats::Item& item : tensor.items)
      if (wanted(i++)) items.push_back({&tensor, &item});
  std::ranges::sort(items, {}, [](const ItemOfTensor& of) { return std::tie(of.item->file, of.item->offset); });
  return items;
}

}  // namespace

Verification verify_frame(const Path& folder) {
  Verification result;
  open_frame(folder, result);
  return result;
}

std::string checked_items(const Reader& reader) {
  std::string bits;
  size_t i = 0;
  for (const formats::StoredTensor& tensor : reader.metadata().tensors) {
    for (const formats::Item& item : tensor.items) {
      if (i % kBits == 0) bits += '\0';
      if (reader.has_checked(item)) bits.back() = static_cast<char>(bits.back() | (1 << (i % kBits)));
      ++i;
    }
  }
  return bits;
}

void check_rest(Reader& reader, std::string_view checked, int64_t rank, int64_t ranks) {
  const std::vector<ItemOfTensor> rest = items_in_file_order(reader, [checked](size_t i) {
    HEARTH_CHECK(i / kBits < checked.size(), "bits of {} items", checked.size() * kBits);
    return (static_cast<unsigned char>(checked[i / kBits]) >> (i % kBits) & 1) == 0;
  });
  int64_t bytes = 0, begin = 0;  // of all; of those before an item
  for (const ItemOfTensor& unread : rest) bytes += unread.item->length;
  for (const ItemOfTensor& unread : rest) {
    const auto share =
        static_cast<int64_t>(static_cast<double>(begin) / static_cast<double>(bytes) * static_cast<double>(ranks));
    if (std::min(share, ranks - 1) == rank) reader.check(*unread.tensor, *unread.item);
    begin += unread.item->length;
  }
}

Verification verify_checkpoint(const Path& folder) {
  Verification result;
  std::optional<Reader> reader = open_frame(folder, result);
  if (!reader) return result;
  for (const formats::StoredTensor& tensor : reader->metadata().tensors) {
    ++result.tensors;
    const mesh::Box all{std::vector<int64_t>(tensor.info.shape.size(), 0), tensor.info.shape};
    whole(result, [&] { formats::check_coverage(tensor, all, folder.string()); });
  }
  for (const ItemOfTensor& of : items_in_file_order(*reader, [](size_t) { return true; })) {
    ++result.items;
    result.bytes += of.item->length;
    whole(result, [&] { reader->check(*of.tensor, *of.item); });
  }
  return result;
}

}  // namespace hearth::checkpoint
