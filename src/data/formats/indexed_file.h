// SPDX-License-Identifier: Apache-2.0
// Token files of Megatron-LM and GPT-NeoX: NAME.bin has the ids, NAME.idx the positions of the sequences. The index has
// one of two layouts, both little-endian:
//
//   MMIDIDX  magic (9 bytes), u64 version 1, u8 type, u64 sequences N, u64 D, i32 lengths[N], i64 byte offsets[N],
//            i64 documents[D]; Megatron may append one byte per sequence
//   TNTIDX   the older one: magic (8), u64 version 1, u64 type, u64 element size, u64 N, u64 lengths, u64 D,
//            i64 dimensions[N + 1], i64 element offsets[N + 1], i64 lengths[], i64 documents[D]
//
// Types: 1 u8, 2 i8, 3 i16, 4 i32, 5 i64, 8 u16. 6 and 7 are float and double in GPT-NeoX's dialect, double and float
// in Megatron's. The end of any sequence with tokens shows the dialect.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "data/formats/element_type.h"

namespace hearth::data {

// Whether the file starts like an index.
bool is_index_file(const Path& path);
// The dialects that IndexedFile accepts, for help.
std::vector<std::string> index_dialects();
// NAME.bin for NAME.idx, or for NAME, as Megatron names such files; otherwise `given`.
Path token_file_of(const Path& given);
// The index of NAME.bin; nothing if NAME.idx does not exist or is no index.
std::optional<Path> index_of(const Path& bin);

// An index and its tokens, mapped. A sequence is checked when it is read, so opening is fast.
class IndexedFile {
 public:
  // `dialect` is "neox" or "megatron"; empty: found from the file. Throws damaged() for an invalid header or a wrong
  // file size, user_error for another version, type or dialect.
  explicit IndexedFile(const Path& bin, std::string_view dialect = {});

  int64_t num_sequences() const { return num_sequences_; }
  // Element type of the .bin file's bytes as shard tokens, if all are ids; nothing for i64 and floats.
  std::optional<ElementType> token_type() const;
  std::span<const std::byte> tokens() const { return tokens_.bytes(); }
  // First byte of sequence i in the .bin file, 0 <= i <= num_sequences(). Not checked.
  int64_t offset(int64_t i) const;
  // Puts the ids of sequence i into `ids`. Throws damaged() if it is outside the file or not directly after the one
  // before, user_error for a value that is no id (negative, not whole, or too large).
  void read(int64_t i, std::vector<uint32_t>& ids) const;
  // The same for labels, which are ids or kIgnore.
  void read_labels(int64_t i, std::vector<int32_t>& labels) const;
  // Throws damaged() unless the list of documents rises from 0 to the number of sequences.
  void check_documents() const;

 private:
  template <typename Element>
  void read_as(int64_t i, std::vector<Element>& values) const;
  void open_mapped_index(std::string_view dialect);
  void open_legacy_index();
  void tell_dialect(std::string_view dialect);
  void check_dialect(std::string_view dialect) const;
  [[noreturn]] void fail(std::string why) const;
  uint64_t u64_at(uint64_t at) const;
  int64_t length(int64_t i) const;

  Path index_path_;
  MappedFile index_, tokens_;
  bool legacy_ = false;
  uint32_t type_ = 0;
  uint64_t element_bytes_ = 0;
  int64_t num_sequences_ = 0;
  uint64_t lengths_at_ = 0, offsets_at_ = 0, documents_at_ = 0, num_documents_ = 0;
};

}  // namespace hearth::data
