// SPDX-License-Identifier: Apache-2.0
#include "data/formats/indexed_file.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string_view>

#include "base/error.h"
#include "data/formats/label_weights.h"

namespace hearth::data {
namespace {

constexpr std::string_view kIndexedMagic("MMIDIDX\0\0", 9), kLegacyMagic("TNTIDX\0\0", 8);

constexpr std::string_view kNeox = "neox", kMegatron = "megatron";

// Types 6 and 7 as in GPT-NeoX (megatron/data/indexed_dataset.py); Megatron-LM's DType swaps them.
uint64_t size_of_type(uint32_t type) {
  constexpr uint64_t kSizes[] = {0, 1, 1, 2, 4, 8, 4, 8, 2};
  return type < std::size(kSizes) ? kSizes[type] : 0;
}

bool is_float(uint32_t type) { return type == 6 || type == 7; }

// Size of type 6 or 7 in a dialect.
uint64_t size_of_float(uint32_t type, std::string_view dialect) { return (type == 6) == (dialect == kNeox) ? 4 : 8; }

// A value as an id, or as a label, which may also be kIgnore (-100); nothing for other values.
template <typename Id, typename T>
std::optional<Id> id_of(T value) {
  if (std::is_signed_v<Id> && std::is_signed_v<T> && value == static_cast<T>(kIgnore)) return static_cast<Id>(kIgnore);
  if constexpr (std::is_floating_point_v<T>) {
    if (!(value >= 0 && value < 0x1p31) || value != std::floor(value)) return {};
  } else {
    if (value < T{0} || static_cast<uint64_t>(value) >= uint64_t{1} << 31) return {};
  }
  return static_cast<Id>(value);
}

// Index of the first element that is no id; -1 if all are ids.
template <typename T, typename Id>
int64_t widen(std::span<const std::byte> bytes, std::vector<Id>& ids) {
  const size_t count = bytes.size() / sizeof(T);
  ids.resize(count);
  for (size_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    const auto id = id_of<Id>(value);
    if (!id) return static_cast<int64_t>(i);
    ids[i] = *id;
  }
  return -1;
}

}  // namespace

bool is_index_file(const Path& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return false;
  const File file = File::open_read(path);
  std::string start(std::min<size_t>(kIndexedMagic.size(), static_cast<size_t>(file.size_bytes())), '\0');
  file.read_at(0, std::as_writable_bytes(std::span(start)));
  return start.starts_with(kIndexedMagic) || start.starts_with(kLegacyMagic);
}

Path token_file_of(const Path& given) {
  Path bin = given;
  if (given.extension() == ".idx" && is_index_file(given)) {
    bin.replace_extension(".bin");
    return bin;
  }
  bin += ".bin";
  return !path_exists(given) && index_of(bin) ? bin : given;
}

std::optional<Path> index_of(const Path& bin) {
  Path index = bin;
  index.replace_extension(".idx");
  return bin.extension() == ".bin" && is_index_file(index) ? std::optional(index) : std::nullopt;
}

std::vector<std::string> index_dialects() { return {std::string(kNeox), std::string(kMegatron)}; }

IndexedFile::IndexedFile(const Path& bin, std::string_view dialect) {
  const auto index = index_of(bin);
  if (!index)
    throw user_error(fmt::format("{} is not a token file of Megatron or GPT-NeoX", bin.string()),
                     "there is no .idx file of that format in its folder",
                     "give NAME.bin with NAME.idx in the same folder");
  index_path_ = *index;
  index_ = MappedFile(index_path_);
  tokens_ = MappedFile(bin);
  const std::string_view start(reinterpret_cast<const char*>(index_.bytes().data()),
                               std::min<size_t>(index_.bytes().size(), kIndexedMagic.size()));
  legacy_ = start.starts_with(kLegacyMagic);
  if (legacy_)
    open_legacy_index();
  else
    open_mapped_index(dialect);
  check_dialect(dialect);
}

void IndexedFile::fail(std::string why) const {
  throw damaged(fmt::format("{} is damaged", index_path_.string()), std::move(why), "get the file again");
}

uint64_t IndexedFile::u64_at(uint64_t at) const {
  uint64_t value = 0;
  if (at > index_.bytes().size() || index_.bytes().size() - at < sizeof value) fail("it is cut short");
  std::memcpy(&value, index_.bytes().data() + at, sizeof value);
  return value;
}

void IndexedFile::open_mapped_index(std::string_view dialect) {
  constexpr uint64_t kHeader = 34;
  if (index_.bytes().size() < kHeader) fail("it is cut short");
  if (const uint64_t version = u64_at(9); version != 1)
    throw user_error(fmt::format("{} has version {}", index_path_.string(), version), "this hearth reads version 1");
  type_ = static_cast<uint32_t>(index_.bytes()[17]);
  const uint64_t sequences = u64_at(18), documents = u64_at(26);
  const uint64_t size = index_.bytes().size() - kHeader;
  if (sequences > size / 12 || documents > (size - 12 * sequences) / 8)
    fail(fmt::format("it has {} bytes, too few for {} sequences and {} documents", index_.bytes().size(), sequences,
                     documents));
  const uint64_t rest = size - 12 * sequences - 8 * documents;
  if (rest != 0 && rest != sequences) fail(fmt::format("{} bytes follow its tables", rest));
  num_sequences_ = static_cast<int64_t>(sequences);
  lengths_at_ = kHeader;
  offsets_at_ = kHeader + 4 * sequences;
  documents_at_ = kHeader + 12 * sequences;
  num_documents_ = documents;
  tell_dialect(dialect);
}

void IndexedFile::open_legacy_index() {
  constexpr uint64_t kHeader = 56;
  if (const uint64_t version = u64_at(8); version != 1)
    throw user_error(fmt::format("{} has version {}", index_path_.string(), version), "this hearth reads version 1");
  const uint64_t type = u64_at(16), element_bytes = u64_at(24);
  const uint64_t sequences = u64_at(32), lengths = u64_at(40), documents = u64_at(48);
  const uint64_t size = index_.bytes().size() - kHeader;
  if (sequences >= size / 16 || lengths != sequences || lengths > (size - 16 * (sequences + 1)) / 8 ||
      documents > (size - 16 * (sequences + 1) - 8 * lengths) / 8)
    fail(fmt::format("it has {} bytes, too few for {} sequences of one dimension and {} documents",
                     index_.bytes().size(), sequences, documents));
  if (size != 16 * (sequences + 1) + 8 * lengths + 8 * documents) fail("there are bytes after its tables");
  type_ = type < 9 ? static_cast<uint32_t>(type) : 0;
  num_sequences_ = static_cast<int64_t>(sequences);
  offsets_at_ = kHeader + 8 * (sequences + 1);
  lengths_at_ = kHeader + 16 * (sequences + 1);
  documents_at_ = lengths_at_ + 8 * lengths;
  num_documents_ = documents;
  element_bytes_ = element_bytes;
  if (is_float(type_) ? element_bytes != 4 && element_bytes != 8
                      : size_of_type(type_) == 0 || size_of_type(type_) != element_bytes)
    fail(fmt::format("its type {} has {} bytes", type, element_bytes));
}

// Types 6 and 7: the end of the last sequence with tokens shows their size.
void IndexedFile::tell_dialect(std::string_view dialect) {
  element_bytes_ = size_of_type(type_);
  if (element_bytes_ == 0)
    throw user_error(fmt::format("{} has tokens of type {}", index_path_.string(), type_), "the types are 1 to 8");
  if (!is_float(type_)) return;
  int64_t last = num_sequences_ - 1;
  while (last >= 0 && length(last) == 0) --last;
  if (last < 0) {  // no tokens
    element_bytes_ = size_of_float(type_, dialect.empty() ? kNeox : dialect);
    return;
  }
  const int64_t count = length(last);
  const auto tokens = static_cast<uint64_t>(count);
  const uint64_t bytes = static_cast<uint64_t>(offset(last + 1)) - static_cast<uint64_t>(offset(last));
  if (count < 0 || (bytes != 4 * tokens && bytes != 8 * tokens))
    fail(fmt::format("sequence {} has {} tokens, of 4 or 8 bytes, and {} bytes", last, count,
                     static_cast<int64_t>(bytes)));
  element_bytes_ = bytes / tokens;
}

void IndexedFile::check_dialect(std::string_view dialect) const {
  if (dialect.empty() || !is_float(type_) || element_bytes_ == size_of_float(type_, dialect)) return;
  throw user_error(fmt::format("{} is not in the dialect \"{}\"", index_path_.string(), dialect),
                   fmt::format("its tokens have type {} and {} bytes, which is {}'s", type_, element_bytes_,
                               dialect == kNeox ? kMegatron : kNeox),
                   "leave --dialect out");
}

// Ids are not negative: they read the same as signed and as unsigned numbers.
std::optional<ElementType> IndexedFile::token_type() const {
  if (type_ == 5 || is_float(type_)) return {};
  return element_bytes_ == 1 ? ElementType::kU8 : element_bytes_ == 2 ? ElementType::kU16 : ElementType::kU32;
}

int64_t IndexedFile::length(int64_t i) const {
  if (legacy_) return static_cast<int64_t>(u64_at(lengths_at_ + 8 * static_cast<uint64_t>(i)));
  int32_t length = 0;
  std::memcpy(&length, index_.bytes().data() + lengths_at_ + 4 * static_cast<uint64_t>(i), sizeof length);
  return length;
}

int64_t IndexedFile::offset(int64_t i) const {
  HEARTH_CHECK(i >= 0 && i <= num_sequences_);
  const auto row = static_cast<uint64_t>(i);
  if (legacy_) {
    const uint64_t elements = u64_at(offsets_at_ + 8 * row);
    return elements > tokens_.bytes().size() ? -1 : static_cast<int64_t>(elements * element_bytes_);
  }
  if (i == num_sequences_) return static_cast<int64_t>(tokens_.bytes().size());
  return static_cast<int64_t>(u64_at(offsets_at_ + 8 * row));
}

void IndexedFile::read(int64_t i, std::vector<uint32_t>& ids) const { read_as(i, ids); }
void IndexedFile::read_labels(int64_t i, std::vector<int32_t>& labels) const { read_as(i, labels); }

template <typename Element>
void IndexedFile::read_as(int64_t i, std::vector<Element>& ids) const {
  const int64_t begin = offset(i), count = length(i);
  const uint64_t size = tokens_.bytes().size();
  if (begin < 0 || static_cast<uint64_t>(begin) > size || count < 0 ||
      static_cast<uint64_t>(count) > (size - static_cast<uint64_t>(begin)) / element_bytes_)
    fail(fmt::format("sequence {} is outside the tokens", i));
  const int64_t bytes = count * static_cast<int64_t>(element_bytes_);
  if ((i == 0 && begin != 0) || offset(i + 1) != begin + bytes)
    fail(fmt::format("sequence {} does not end where the next one begins", i));
  const auto data = tokens_.bytes().subspan(static_cast<size_t>(begin), static_cast<size_t>(bytes));
  const int64_t wrong = type_ == 1            ? widen<uint8_t>(data, ids)
                        : type_ == 2          ? widen<int8_t>(data, ids)
                        : type_ == 3          ? widen<int16_t>(data, ids)
                        : type_ == 4          ? widen<int32_t>(data, ids)
                        : type_ == 5          ? widen<int64_t>(data, ids)
                        : type_ == 8          ? widen<uint16_t>(data, ids)
                        : element_bytes_ == 4 ? widen<float>(data, ids)
                                              : widen<double>(data, ids);
  if (wrong >= 0) throw user_error(fmt::format("its token {} is not an id: negative, not whole, or too large", wrong));
}

void IndexedFile::check_documents() const {
  uint64_t before = 0;
  for (uint64_t d = 0; d < num_documents_; ++d) {
    const uint64_t first = u64_at(documents_at_ + 8 * d);
    if (first < before || (d == 0 && first != 0)) fail("its list of documents does not rise from 0");
    before = first;
  }
  if (num_documents_ > 0 && before != static_cast<uint64_t>(num_sequences_))
    fail("its list of documents does not end at the last sequence");
}

}  // namespace hearth::data
