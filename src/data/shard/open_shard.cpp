// SPDX-License-Identifier: Apache-2.0
#include "data/shard/open_shard.h"

#include <algorithm>

#include "base/error.h"
#include "base/hash.h"

namespace hearth::data {
namespace {

template <typename T>
void widen(const std::byte* from, std::span<int32_t> to) {
  for (size_t i = 0; i < to.size(); ++i) {
    T value;
    std::memcpy(&value, from + i * sizeof(T), sizeof(T));
    to[i] = static_cast<int32_t>(value);
  }
}

bool is_u64_a_document(const Column* column) {
  return column != nullptr && column->axis == ColumnAxis::kDocument && column->type == ElementType::kU64 &&
         column->row_shape.empty();
}

}  // namespace

OpenShard::OpenShard(const Path& path, const ShardEntry& entry, bool is_arrays)
    : reader_(path),
      num_tokens_(entry.tokens),
      tokens_(reader_.find_column(kTokensColumn)),
      cell_ends_(reader_.find_column(kDocumentEndsColumn)),
      ends_(is_arrays ? reader_.find_column(kStreamEndsColumn) : cell_ends_) {
  const ShardHeader& header = reader_.header();
  if (to_hex64(header.header_checksum) != entry.checksum) fail("it is not the shard that the manifest names");
  if (tokens_ == nullptr || tokens_->axis != ColumnAxis::kToken || tokens_->type > ElementType::kU32 ||
      !tokens_->row_shape.empty())
    fail("it has no column \"tokens\" of u8, u16 or u32, one per token");
  if (!is_u64_a_document(cell_ends_)) fail("it has no column \"document_ends\" of u64, one per document");
  if (header.num_documents != static_cast<uint64_t>(entry.documents) ||
      (!is_arrays && header.num_tokens != static_cast<uint64_t>(entry.tokens)))
    fail("its numbers of documents and tokens differ from the manifest's");
  if (entry.weights) weights_.emplace(reader_);  // otherwise a column of this name is no weights of labels
  if (!is_arrays) return;
  if (entry.weights) fail("arrays have no weights");
  shapes_ = reader_.find_column(kArrayShapeColumn);
  if (tokens_->type != ElementType::kU8) fail("its column \"tokens\" holds no counts (u8)");
  if (!is_u64_a_document(ends_)) fail("it has no column \"stream_ends\" of u64, one per document");
  if (shapes_ == nullptr || shapes_->axis != ColumnAxis::kDocument || shapes_->type != ElementType::kU64 ||
      shapes_->row_shape != std::vector<uint64_t>{2})
    fail("it has no column \"array_shape\" of two u64 per document");
}

void OpenShard::fail(std::string why) const { throw bad_shard(reader_.path(), std::move(why)); }

void OpenShard::fail_ends() const {
  fail(fmt::format("its column \"{}\" does not rise to the number of tokens", ends_->name));
}

int64_t OpenShard::end_of(int64_t document) const {
  const auto end = element<uint64_t>(reader_, *ends_, document);
  if (end > static_cast<uint64_t>(num_tokens_)) fail_ends();
  return static_cast<int64_t>(end);
}

void OpenShard::append_ends(int64_t document, int64_t count, int64_t first_token, std::vector<int64_t>& ends) const {
  constexpr uint64_t kSize = sizeof(uint64_t);
  const auto from = static_cast<uint64_t>(document) * kSize;
  reader_.check_range(*ends_, from, from + static_cast<uint64_t>(count) * kSize);
  const std::byte* data = reader_.column_bytes(*ends_).data() + from;
  uint64_t before = document == 0 ? 0 : static_cast<uint64_t>(end_of(document - 1));
  for (int64_t i = 0; i < count; ++i) {
    uint64_t end;
    std::memcpy(&end, data + static_cast<uint64_t>(i) * kSize, kSize);
    if (end < before || end > static_cast<uint64_t>(num_tokens_)) fail_ends();
    ends.push_back(first_token + static_cast<int64_t>(end));
    before = end;
  }
}

int64_t OpenShard::document_at(int64_t token) const {
  int64_t low = 0, high = static_cast<int64_t>(ends_->num_rows);
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (end_of(middle) > token)
      high = middle;
    else
      low = middle + 1;
  }
  if (low == static_cast<int64_t>(ends_->num_rows) || (low > 0 && end_of(low - 1) > token)) fail_ends();
  return low;
}

void OpenShard::read(int64_t first, std::span<int32_t> out) const {
  const uint64_t size = element_size(static_cast<uint32_t>(tokens_->type));
  const auto from = static_cast<uint64_t>(first) * size;
  reader_.check_range(*tokens_, from, from + out.size() * size);
  const std::byte* data = reader_.column_bytes(*tokens_).data() + from;
  switch (size) {
    case 1:
      return widen<uint8_t>(data, out);
    case 2:
      return widen<uint16_t>(data, out);
    default:
      return widen<uint32_t>(data, out);
  }
}

void OpenShard::read_weights(int64_t first, std::span<float> out) const {
  if (weights_)
    weights_->read(first, out);
  else
    std::fill(out.begin(), out.end(), 1.0F);
}

recordings::ArrayShape OpenShard::shape_of(int64_t document) const {
  const auto bins = element<uint64_t>(reader_, *shapes_, 2 * document);
  const auto neurons = element<uint64_t>(reader_, *shapes_, 2 * document + 1);
  const uint64_t begin = document == 0 ? 0 : element<uint64_t>(reader_, *cell_ends_, document - 1);
  const uint64_t end = element<uint64_t>(reader_, *cell_ends_, document);
  const bool in_order = begin <= end && end <= reader_.header().num_tokens;
  if (!in_order || neurons == 0 || neurons > static_cast<uint64_t>(INT64_MAX) || bins > (end - begin) / neurons ||
      bins * neurons != end - begin)
    fail("its column \"array_shape\" contradicts the number of counts");
  return {static_cast<int64_t>(neurons), static_cast<int64_t>(bins)};
}

std::string OpenShard::label_of(int64_t document, size_t label) const {
  const Column* column = reader_.find_column(recordings::kLabelNames[label]);
  if (column == nullptr || column->axis != ColumnAxis::kDocument || column->type != ElementType::kU8 ||
      column->row_shape.size() != 1)
    return {};
  const uint64_t width = column->row_shape[0], begin = static_cast<uint64_t>(document) * width;
  reader_.check_range(*column, begin, begin + width);
  const auto* text = reinterpret_cast<const char*>(reader_.column_bytes(*column).data() + begin);
  return {text, ::strnlen(text, width)};
}

void OpenShard::read_array(const recordings::ArrayStream& stream, int64_t document, int64_t crop, int64_t first,
                           std::span<int32_t> out) const {
  if (out.empty()) return;
  const recordings::ArrayShape shape = shape_of(document);
  if (stream.tokens(shape) != end_of(document) - (document == 0 ? 0 : end_of(document - 1))) fail_ends();
  const uint64_t begin = document == 0 ? 0 : element<uint64_t>(reader_, *cell_ends_, document - 1);
  const auto [first_bin, end_bin] = stream.bins_of(shape, first, static_cast<int64_t>(out.size()));
  reader_.check_range(*tokens_, begin + static_cast<uint64_t>(first_bin * shape.neurons),
                      begin + static_cast<uint64_t>(end_bin * shape.neurons));
  const auto* counts = reinterpret_cast<const uint8_t*>(reader_.column_bytes(*tokens_).data()) + begin;
  stream.read(shape, counts, crop, first, out);
}

}  // namespace hearth::data
