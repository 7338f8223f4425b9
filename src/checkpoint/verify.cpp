#include "checkpoint/verify.h"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>
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

// Neighbours in this order are in one file: with another order each item would open its file anew.
bool in_file_order(const formats::Item& a, const formats::Item& b) {
  return std::tie(a.file, a.offset) < std::tie(b.file, b.offset);
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
  struct Unread {
    const formats::StoredTensor* tensor;
    const formats::Item* item;
    int64_t begin;  // the bytes of those before it
  };
  std::vector<Unread> rest;
  int64_t bytes = 0;
  size_t i = 0;
  for (const formats::StoredTensor& tensor : reader.metadata().tensors) {
    for (const formats::Item& item : tensor.items) {
      HEARTH_CHECK(i / kBits < checked.size(), "bits of {} items", checked.size() * kBits);
      const bool is_checked = (static_cast<unsigned char>(checked[i / kBits]) >> (i % kBits) & 1) != 0;
      ++i;
      if (is_checked) continue;
      rest.push_back({&tensor, &item, 0});
    }
  }
  std::sort(rest.begin(), rest.end(), [](const Unread& a, const Unread& b) { return in_file_order(*a.item, *b.item); });
  for (Unread& unread : rest) {
    unread.begin = bytes;
    bytes += unread.item->length;
  }
  for (const Unread& unread : rest) {
    const auto share = static_cast<int64_t>(static_cast<double>(unread.begin) / static_cast<double>(bytes) *
                                            static_cast<double>(ranks));
    if (std::min(share, ranks - 1) == rank) reader.check(*unread.tensor, *unread.item);
  }
}

Verification verify_checkpoint(const Path& folder) {
  Verification result;
  std::optional<Reader> reader = open_frame(folder, result);
  if (!reader) return result;
  std::vector<std::pair<const formats::StoredTensor*, const formats::Item*>> items;
  for (const formats::StoredTensor& tensor : reader->metadata().tensors) {
    ++result.tensors;
    const mesh::Box all{std::vector<int64_t>(tensor.info.shape.size(), 0), tensor.info.shape};
    whole(result, [&] { formats::check_coverage(tensor, all, folder.string()); });
    for (const formats::Item& item : tensor.items) {
      ++result.items;
      result.bytes += item.length;
      items.push_back({&tensor, &item});
    }
  }
  std::sort(items.begin(), items.end(),
            [](const auto& a, const auto& b) { return in_file_order(*a.second, *b.second); });
  for (const auto& of : items) whole(result, [&] { reader->check(*of.first, *of.second); });
  return result;
}

}  // namespace hearth::checkpoint
