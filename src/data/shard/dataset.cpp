// SPDX-License-Identifier: Apache-2.0
#include "data/shard/dataset.h"

#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <utility>

#include "base/error.h"
#include "base/object_cache.h"
#include "base/object_file.h"
#include "base/random.h"
#include "base/text.h"
#include "data/shard/open_shard.h"
#include "data/shard/shard_format.h"

namespace hearth::data {
namespace {

// Index of the last element of `firsts` that is not above `value`.
int64_t find_last(const std::vector<int64_t>& firsts, int64_t value) {
  return std::ranges::upper_bound(firsts, value) - firsts.begin() - 1;
}

// Size of the file, or -1.
int64_t size_on_disk(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 ? static_cast<int64_t>(status.st_size) : -1;
}

}  // namespace

// Opened on first use. On a disk, the pointer is set once and never changes. In a store, a shard is a copy in the cache
// of this host: all shards that are open fit into the cache's limit, and the one not used for longest is closed first.
struct Split::Shards {
  Shards(Path where, std::vector<ShardEntry> of_split, bool of_arrays)
      : folder(std::move(where)),
        entries(std::move(of_split)),
        is_arrays(of_arrays),
        is_remote(is_object(folder)),
        slots(entries.size()) {}

  struct Slot {
    std::shared_ptr<const OpenShard> shard;
    uint64_t used = 0;  // in a store: when
    std::atomic<const OpenShard*> ready{nullptr};
  };
  const Path folder;
  const std::vector<ShardEntry> entries;
  const bool is_arrays, is_remote;
  std::vector<Slot> slots;
  std::mutex mutex;
  uint64_t uses = 0;
  int64_t open_bytes = 0;  // in a store

  // The caller may use the shard as long as it has the pointer.
  std::shared_ptr<const OpenShard> open(int64_t index) {
    Slot& slot = slots[static_cast<size_t>(index)];
    // Without a count of users: it lives as long as this object.
    if (const OpenShard* shard = slot.ready.load(std::memory_order_acquire)) return {std::shared_ptr<void>(), shard};
    const std::lock_guard lock(mutex);
    const ShardEntry& entry = entries[static_cast<size_t>(index)];
    slot.used = ++uses;
    if (slot.shard == nullptr && is_remote) {
      close_until_fits(entry.size_bytes);
      slot.shard = open_copy(entry);
      open_bytes += entry.size_bytes;
    } else if (slot.shard == nullptr) {
      slot.shard = std::make_shared<const OpenShard>(folder / entry.file, entry, is_arrays);
      slot.ready.store(slot.shard.get(), std::memory_order_release);
    }
    return slot.shard;
  }

 private:
  void close_until_fits(int64_t bytes) {
    const int64_t limit = cache_limit_bytes();
    while (open_bytes > 0 && open_bytes + bytes > limit) {
      size_t oldest = slots.size();
      for (size_t i = 0; i < slots.size(); ++i)
        if (slots[i].shard != nullptr && (oldest == slots.size() || slots[i].used < slots[oldest].used)) oldest = i;
      slots[oldest].shard = nullptr;
      open_bytes -= entries[oldest].size_bytes;
    }
  }

  // A bit that flipped on the way must not stay in the cache: a damaged copy is made once more.
  std::shared_ptr<const OpenShard> open_copy(const ShardEntry& entry) const {
    const Path path = folder / entry.file;
    const auto try_once = [&] {
      auto shard = std::make_shared<const OpenShard>(path, entry, is_arrays);
      const std::vector<std::string> damage = shard->reader().find_damage();
      if (!damage.empty()) throw bad_shard(path, damage.front());
      return shard;
    };
    try {
      return try_once();
    } catch (const Error& error) {
      if (error.code() != ExitCode::kDamaged) throw;
    }
    forget_copy(path);
    return try_once();
  }
};

// Turns arrays into tokens; the same for all splits of a dataset.
struct Split::Arrays {
  Arrays(std::unique_ptr<tokenizer::Tokenizer> of_dataset, int64_t n_fixed)
      : tokenizer(std::move(of_dataset)), stream(*tokenizer->arrays(), n_fixed) {}
  const std::unique_ptr<tokenizer::Tokenizer> tokenizer;
  const recordings::ArrayStream stream;
};

const recordings::ArrayStream* Split::arrays() const { return arrays_ == nullptr ? nullptr : &arrays_->stream; }

Split::Split(const Path& folder, const SplitEntry& entry, std::string identity, std::shared_ptr<const Arrays> arrays)
    : entry_(entry),
      weights_(entry.weights()),
      identity_(std::move(identity)),
      arrays_(std::move(arrays)),
      shards_(std::make_shared<Shards>(folder, std::exchange(entry_.shards, {}), arrays_ != nullptr)) {
  // Thousands of shards open in milliseconds: joining a path's parts would cost more than the stat.
  std::string path = (folder / "").string();
  const size_t folder_size = path.size();
  first_token_.push_back(0);
  first_document_.push_back(0);
  std::map<std::string, int64_t> in_store;
  if (shards_->is_remote)
    for (const ObjectInfo& object : list_objects(folder)) in_store[object.name] = object.bytes;
  for (const ShardEntry& shard : shards_->entries) {
    path.replace(folder_size, std::string::npos, shard.file);
    const auto object = in_store.find(shard.file);
    const int64_t size = object != in_store.end() ? object->second : size_on_disk(path);
    if (size < 0) throw damaged(fmt::format("shard {} is missing", path), "the manifest names it", kRebuild);
    if (size != shard.size_bytes)
      throw bad_shard(path, fmt::format("it has {} bytes instead of {}", size, shard.size_bytes));
    first_token_.push_back(first_token_.back() + shard.tokens);
    first_document_.push_back(first_document_.back() + shard.documents);
  }
  // Opens shards with tokens in another file now: a missing file is found here, not after an hour.
  for (size_t i = 0; i < shards_->entries.size(); ++i) {
    const int64_t source = shards_->entries[i].tokens_in;
    if (source >= 0 && (i == 0 || shards_->entries[i - 1].tokens_in != source)) shards_->open(static_cast<int64_t>(i));
  }
}

// Calls read_part(shard, first token in it, part of `out`) for each shard with some of tokens [first, first +
// out.size()).
template <typename T, typename ReadPart>
void Split::read_shards(int64_t first, std::span<T> out, const ReadPart& read_part) const {
  HEARTH_CHECK(first >= 0 && first + static_cast<int64_t>(out.size()) <= tokens());
  for (int64_t index = find_last(first_token_, first); !out.empty(); ++index) {
    const int64_t begin = first - first_token_[static_cast<size_t>(index)];
    const int64_t in_shard = first_token_[static_cast<size_t>(index) + 1] - first;
    const auto part = out.first(static_cast<size_t>(std::min(in_shard, static_cast<int64_t>(out.size()))));
    if (part.empty()) continue;  // a shard without tokens
    read_part(index, begin, part);
    out = out.subspan(part.size());
    first += static_cast<int64_t>(part.size());
  }
}

void Split::read(int64_t first, std::span<int32_t> out, const Draw& draw) const {
  read_shards(first, out, [&](int64_t shard, int64_t begin, std::span<int32_t> part) {
    if (arrays_ == nullptr)
      shards_->open(shard)->read(begin, part);
    else
      read_arrays(shard, begin, part, draw);
  });
}

void Split::read_weights(int64_t first, std::span<float> out) const {
  read_shards(first, out, [&](int64_t shard, int64_t begin, std::span<float> part) {
    shards_->open(shard)->read_weights(begin, part);
  });
}

// Tokens [first, first + out.size()) of shard `index`.
void Split::read_arrays(int64_t index, int64_t first, std::span<int32_t> out, const Draw& draw) const {
  const auto shard = shards_->open(index);
  for (int64_t document = shard->document_at(first); !out.empty(); ++document) {
    const int64_t begin = document == 0 ? 0 : shard->end_of(document - 1), end = shard->end_of(document);
    if (first < begin || end < begin) shard->fail_ends();
    const auto part = out.first(static_cast<size_t>(std::min(end - first, static_cast<int64_t>(out.size()))));
    const int64_t row = first_document_[static_cast<size_t>(index)] + document;
    const int64_t crop = first_neuron(row, arrays_->stream.crops(shard->shape_of(document)), draw);
    shard->read_array(arrays_->stream, document, crop, first - begin, part);
    out = out.subspan(part.size());
    first += static_cast<int64_t>(part.size());
  }
}

// The first neuron of a row, one of `places`. It decides the training data: never change.
int64_t Split::first_neuron(int64_t row, int64_t places, const Draw& draw) const {
  if (places == 1) return 0;
  const RandomKey key = random_key(draw.seed, "neurons:" + identity_ + "/" + name());
  const auto block = philox(key, static_cast<uint64_t>(row), draw.epoch);
  const uint64_t value = uint64_t{block[0]} | uint64_t{block[1]} << 32;
  __extension__ typedef unsigned __int128 Wide;
  return static_cast<int64_t>(static_cast<Wide>(value) * static_cast<Wide>(places) >> 64);
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
      shards_->open(find_last(first_document_, document))->fail_ends();
    starts.push_back(static_cast<int32_t>(begin - first));
  }
}

int64_t Split::document_begin(int64_t document) const {
  HEARTH_CHECK(document >= 0 && document <= documents());
  const int64_t index = find_last(first_document_, document);
  const auto i = static_cast<size_t>(index);
  const int64_t in_shard = document - first_document_[i];
  if (in_shard == 0) return first_token_[i];
  return first_token_[i] + shards_->open(index)->end_of(in_shard - 1);
}

std::vector<int64_t> Split::document_begins(int64_t first, int64_t count) const {
  HEARTH_CHECK(first >= 0 && count >= 0 && first + count <= documents() + 1);
  std::vector<int64_t> begins;
  begins.reserve(static_cast<size_t>(count));
  const int64_t end = first + count;
  for (int64_t document = first; document < end;) {
    const auto i = static_cast<size_t>(find_last(first_document_, document));
    const int64_t in_shard = document - first_document_[i];
    if (in_shard == 0) {  // also after the last document
      begins.push_back(first_token_[i]);
      ++document;
      continue;
    }
    const int64_t rows = std::min(end, first_document_[i + 1]) - document;
    shards_->open(static_cast<int64_t>(i))->append_ends(in_shard - 1, rows, first_token_[i], begins);
    document += rows;
  }
  return begins;
}

int64_t Split::shard_of(int64_t token) const {
  HEARTH_CHECK(token >= 0 && token < tokens());
  return find_last(first_token_, token);
}

TokenPosition Split::locate(int64_t token) const {
  TokenPosition place;
  place.shard = shard_of(token);
  const auto i = static_cast<size_t>(place.shard);
  const auto shard = shards_->open(place.shard);
  const int64_t in_shard = shard->document_at(token - first_token_[i]);
  place.document = first_document_[i] + in_shard;
  place.offset = token - first_token_[i] - (in_shard == 0 ? 0 : shard->end_of(in_shard - 1));
  return place;
}

DocumentOrigin Split::origin(int64_t document) const {
  HEARTH_CHECK(document >= 0 && document < documents());
  const int64_t index = find_last(first_document_, document);
  const int64_t row = document - first_document_[static_cast<size_t>(index)];
  const auto open = shards_->open(index);
  const ShardReader& reader = open->reader();
  DocumentOrigin origin;
  // Takes only a column with one number per document.
  const auto find = [&](std::string_view name, ElementType type) {
    const Column* column = reader.find_column(name);
    const bool usable =
        column != nullptr && column->axis == ColumnAxis::kDocument && column->type == type && column->row_shape.empty();
    return usable ? column : nullptr;
  };
  if (const Column* column = find(kSourceColumn, ElementType::kU32))
    origin.source = shards_->entries[static_cast<size_t>(index)].first_source + element<uint32_t>(reader, *column, row);
  const auto u64_at = [&](std::string_view name) {
    const Column* column = find(name, ElementType::kU64);
    return column != nullptr ? static_cast<int64_t>(element<uint64_t>(reader, *column, row)) : -1;
  };
  origin.source_offset = u64_at(kSourceOffsetColumn);
  origin.text_bytes = u64_at(kTextBytesColumn);
  return origin;
}

ArrayInfo Split::array(int64_t document) const {
  HEARTH_CHECK(arrays_ != nullptr && document >= 0 && document < documents());
  const int64_t index = find_last(first_document_, document);
  const auto shard = shards_->open(index);
  const int64_t row = document - first_document_[static_cast<size_t>(index)];
  ArrayInfo info;
  info.shape = shard->shape_of(row);
  for (size_t i = 0; i < info.labels.size(); ++i) info.labels[i] = shard->label_of(row, i);
  return info;
}

Dataset Dataset::open(const Path& folder) {
  Dataset dataset;
  dataset.folder_ = folder;
  dataset.manifest_ = read_manifest(folder);
  std::shared_ptr<const Split::Arrays> arrays;
  if (recordings::is_name_of_arrays(dataset.manifest_.rules.tokenizer))
    arrays = std::make_shared<const Split::Arrays>(dataset.open_tokenizer(), dataset.manifest_.rules.n_fixed);
  for (const SplitEntry& entry : dataset.manifest_.splits)
    dataset.splits_.push_back(Split(folder, entry, dataset.manifest_.identity, arrays));
  return dataset;
}

std::unique_ptr<tokenizer::Tokenizer> Dataset::open_tokenizer() const {
  const auto id = [](int64_t value) {
    return value < 0 ? std::nullopt : std::optional<uint32_t>(static_cast<uint32_t>(value));
  };
  return tokenizer::open_kept_tokenizer(folder_, manifest_.rules.tokenizer, manifest_.tokenizer_hash,
                                        {id(manifest_.bos), id(manifest_.eos)});
}

const Split& Dataset::split(std::string_view name) const {
  for (const Split& split : splits_) {
    if (split.name() == name && split.tokens() > 0) return split;
  }
  const std::string what = fmt::format("dataset {} has no split \"{}\"", folder_.string(), name);
  const std::string& by_position = manifest_.rules.split;
  if (name == "validation" || name == "test")
    throw user_error(what,
                     by_position.empty() ? "no document was held out when it was built"
                                         : fmt::format("--split {} gave it no document", by_position),
                     name == "validation" ? "build it with --validation 0.05" : "build it with --split 969,30,1");
  std::vector<std::string> others;
  for (const Split& split : splits_)
    if (split.tokens() > 0) others.push_back(split.name());
  throw user_error(what, others.empty() ? "it holds no document" : "",
                   others.empty() ? "" : "give one of those that it has: " + join(others));
}

}  // namespace hearth::data
