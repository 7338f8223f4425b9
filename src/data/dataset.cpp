#include "data/dataset.h"

#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "data/shard_reader.h"

namespace hearth::data {
namespace {

constexpr const char* kRebuild = "restore the file from a copy, or build the dataset again";

template <typename T>
T element(const ShardReader& shard, const Column& column, int64_t row) {
  const auto begin = static_cast<uint64_t>(row) * sizeof(T);
  shard.check_range(column, begin, begin + sizeof(T));
  T value;
  std::memcpy(&value, shard.column_bytes(column).data() + begin, sizeof(T));
  return value;
}

template <typename T>
void widen(const std::byte* from, std::span<int32_t> to) {
  for (size_t i = 0; i < to.size(); ++i) {
    T value;
    std::memcpy(&value, from + i * sizeof(T), sizeof(T));
    to[i] = static_cast<int32_t>(value);
  }
}

// Index of the last element of `firsts` that is not above `value`.
int64_t find_last(const std::vector<int64_t>& firsts, int64_t value) {
  return std::upper_bound(firsts.begin(), firsts.end(), value) - firsts.begin() - 1;
}

// Size of the file, or -1.
int64_t size_on_disk(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 ? static_cast<int64_t>(status.st_size) : -1;
}

// A shard with the columns that a split of documents needs, looked up once.
struct OpenShard {
  OpenShard(const Path& path, const ShardEntry& entry);

  ShardReader reader;
  const Column* tokens;
  const Column* ends;

  int64_t end_of(int64_t document) const;
  int64_t document_at(int64_t token) const;  // the first document that ends after `token`
  [[noreturn]] void fail(std::string why) const {
    throw damaged(fmt::format("shard {} is damaged", reader.path().string()), std::move(why), kRebuild);
  }
};

// Checksums say that the writer wrote it, not that the writer was ours: no token may be looked for where none is.
constexpr const char* kEndsAreWrong = "its column \"document_ends\" does not ascend to its number of tokens";

OpenShard::OpenShard(const Path& path, const ShardEntry& entry)
    : reader(path), tokens(reader.find_column(kTokensColumn)), ends(reader.find_column(kDocumentEndsColumn)) {
  const ShardHeader& header = reader.header();
  if (to_hex64(header.header_checksum) != entry.checksum) fail("it is not the shard that the manifest names");
  if (tokens == nullptr || tokens->axis != Axis::kToken || tokens->type > ElementType::kU32 ||
      !tokens->row_shape.empty())
    fail("it has no column \"tokens\" of u8, u16 or u32, one a token");
  if (ends == nullptr || ends->axis != Axis::kDocument || ends->type != ElementType::kU64 || !ends->row_shape.empty())
    fail("it has no column \"document_ends\" of u64, one a document");
  if (header.num_tokens != static_cast<uint64_t>(entry.tokens) ||
      header.num_documents != static_cast<uint64_t>(entry.documents))
    fail("it has other counts than the manifest says");
}

int64_t OpenShard::end_of(int64_t document) const {
  const auto end = element<uint64_t>(reader, *ends, document);
  if (end > reader.header().num_tokens) fail(kEndsAreWrong);
  return static_cast<int64_t>(end);
}

int64_t OpenShard::document_at(int64_t token) const {
  int64_t low = 0, high = static_cast<int64_t>(ends->num_rows);
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (end_of(middle) > token)
      high = middle;
    else
      low = middle + 1;
  }
  if (low == static_cast<int64_t>(ends->num_rows) || (low > 0 && end_of(low - 1) > token)) fail(kEndsAreWrong);
  return low;
}

}  // namespace

// Opened at the first touch; the pointer is set once and never changes.
struct Split::Shards {
  Shards(Path where, std::vector<ShardEntry> of_split)
      : folder(std::move(where)), entries(std::move(of_split)), slots(entries.size()) {}

  struct Slot {
    std::unique_ptr<const OpenShard> shard;
    std::atomic<const OpenShard*> ready{nullptr};
  };
  const Path folder;
  const std::vector<ShardEntry> entries;
  std::vector<Slot> slots;
  std::mutex mutex;

  const OpenShard& open(int64_t index) {
    Slot& slot = slots[static_cast<size_t>(index)];
    if (const OpenShard* shard = slot.ready.load(std::memory_order_acquire)) return *shard;
    const std::lock_guard lock(mutex);
    if (slot.shard == nullptr) {
      const ShardEntry& entry = entries[static_cast<size_t>(index)];
      slot.shard = std::make_unique<const OpenShard>(folder / entry.file, entry);
      slot.ready.store(slot.shard.get(), std::memory_order_release);
    }
    return *slot.shard;
  }
};

Split::Split(const Path& folder, const SplitEntry& entry, std::string identity)
    : entry_(entry),
      identity_(std::move(identity)),
      shards_(std::make_shared<Shards>(folder, std::exchange(entry_.shards, {}))) {
  // Thousands of shards open in milliseconds: a path made of its parts costs more than the look at the file.
  std::string path = (folder / "").string();
  const size_t folder_size = path.size();
  first_token_.push_back(0);
  first_document_.push_back(0);
  for (const ShardEntry& shard : shards_->entries) {
    path.replace(folder_size, std::string::npos, shard.file);
    const int64_t size = size_on_disk(path);
    if (size < 0) throw damaged(fmt::format("shard {} is missing", path), "the manifest names it", kRebuild);
    if (size != shard.size_bytes)
      throw damaged(fmt::format("shard {} is damaged", path),
                    fmt::format("it has {} bytes instead of {}", size, shard.size_bytes), kRebuild);
    first_token_.push_back(first_token_.back() + shard.tokens);
    first_document_.push_back(first_document_.back() + shard.documents);
  }
}

void Split::read(int64_t first, std::span<int32_t> out) const {
  HEARTH_CHECK(first >= 0 && first + static_cast<int64_t>(out.size()) <= tokens());
  for (int64_t index = find_last(first_token_, first); !out.empty(); ++index) {
    const int64_t begin = first - first_token_[static_cast<size_t>(index)];
    const int64_t in_shard = first_token_[static_cast<size_t>(index) + 1] - first;
    const auto part = out.first(static_cast<size_t>(std::min(in_shard, static_cast<int64_t>(out.size()))));
    if (part.empty()) continue;  // a shard without tokens
    const OpenShard& shard = shards_->open(index);
    const uint64_t size = element_size(static_cast<uint32_t>(shard.tokens->type));
    const auto from = static_cast<uint64_t>(begin) * size;
    shard.reader.check_range(*shard.tokens, from, from + part.size() * size);
    const std::byte* data = shard.reader.column_bytes(*shard.tokens).data() + from;
    switch (size) {
      case 1:
        widen<uint8_t>(data, part);
        break;
      case 2:
        widen<uint16_t>(data, part);
        break;
      default:
        widen<uint32_t>(data, part);
    }
    out = out.subspan(part.size());
    first += static_cast<int64_t>(part.size());
  }
}

void Split::document_starts(int64_t first, int64_t count, std::vector<int32_t>& starts) const {
  HEARTH_CHECK(first >= 0 && count >= 0 && first + count <= tokens());
  if (count == 0) return;
  int64_t document = locate(first).document;
  if (document_begin(document) < first) ++document;
  const size_t before = starts.size();
  for (; document < documents(); ++document) {
    const int64_t begin = document_begin(document);
    if (begin >= first + count) return;
    if (begin < first + (starts.size() == before ? 0 : starts.back()))
      shards_->open(find_last(first_document_, document)).fail(kEndsAreWrong);
    starts.push_back(static_cast<int32_t>(begin - first));
  }
}

int64_t Split::document_begin(int64_t document) const {
  HEARTH_CHECK(document >= 0 && document <= documents());
  const int64_t index = find_last(first_document_, document);
  const auto i = static_cast<size_t>(index);
  const int64_t in_shard = document - first_document_[i];
  if (in_shard == 0) return first_token_[i];
  return first_token_[i] + shards_->open(index).end_of(in_shard - 1);
}

int64_t Split::shard_of(int64_t token) const {
  HEARTH_CHECK(token >= 0 && token < tokens());
  return find_last(first_token_, token);
}

TokenPlace Split::locate(int64_t token) const {
  TokenPlace place;
  place.shard = shard_of(token);
  const auto i = static_cast<size_t>(place.shard);
  const OpenShard& shard = shards_->open(place.shard);
  const int64_t in_shard = shard.document_at(token - first_token_[i]);
  place.document = first_document_[i] + in_shard;
  place.offset = token - first_token_[i] - (in_shard == 0 ? 0 : shard.end_of(in_shard - 1));
  return place;
}

DocumentOrigin Split::origin(int64_t document) const {
  HEARTH_CHECK(document >= 0 && document < documents());
  const int64_t index = find_last(first_document_, document);
  const int64_t row = document - first_document_[static_cast<size_t>(index)];
  const ShardReader& reader = shards_->open(index).reader;
  DocumentOrigin origin;
  // One number a document, or nothing that we know.
  const auto find = [&](std::string_view name, ElementType type) {
    const Column* column = reader.find_column(name);
    const bool usable =
        column != nullptr && column->axis == Axis::kDocument && column->type == type && column->row_shape.empty();
    return usable ? column : nullptr;
  };
  if (const Column* column = find(kSourceColumn, ElementType::kU32))
    origin.source = element<uint32_t>(reader, *column, row);
  const auto u64_at = [&](std::string_view name) {
    const Column* column = find(name, ElementType::kU64);
    return column != nullptr ? static_cast<int64_t>(element<uint64_t>(reader, *column, row)) : -1;
  };
  origin.source_offset = u64_at(kSourceOffsetColumn);
  origin.text_bytes = u64_at(kTextBytesColumn);
  return origin;
}

Dataset Dataset::open(const Path& folder) {
  Dataset dataset;
  dataset.folder_ = folder;
  dataset.manifest_ = read_manifest(folder);
  for (const SplitEntry& entry : dataset.manifest_.splits)
    dataset.splits_.push_back(Split(folder, entry, dataset.manifest_.identity));
  return dataset;
}

std::unique_ptr<tokenizer::Tokenizer> Dataset::open_tokenizer() const {
  const auto id = [](int64_t value) {
    return value < 0 ? std::nullopt : std::optional<uint32_t>(static_cast<uint32_t>(value));
  };
  return tokenizer::open_kept_tokenizer(folder_, manifest_.rules.tokenizer, manifest_.tokenizer_hash,
                                        {id(manifest_.bos), id(manifest_.eos)});
}

bool Dataset::has_split(std::string_view name) const {
  const SplitEntry* entry = manifest_.find_split(name);
  return entry != nullptr && entry->tokens > 0;
}

const Split& Dataset::split(std::string_view name) const {
  for (const Split& split : splits_) {
    if (split.name() == name && split.tokens() > 0) return split;
  }
  throw user_error(fmt::format("dataset {} has no split \"{}\"", folder_.string(), name),
                   name == "validation" ? "no document was held out when it was built" : "",
                   name == "validation" ? "build it with --validation 0.05" : "");
}

}  // namespace hearth::data
