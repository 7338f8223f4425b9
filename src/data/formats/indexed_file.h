// Token files of Megatron-LM and GPT-NeoX: NAME.bin holds the ids, NAME.idx says where sequences lie. Three layouts of
// the index, all little-endian:
//
//   MMIDIDX  magic (9 bytes), u64 version 1, u8 type, u64 sequences N, u64 D, i32 lengths[N], i64 byte offsets[N],
//            i64 documents[D]; Megatron may append a byte a sequence
//   TNTIDX   the older one: magic (8), u64 version 1, u64 type, u64 element size, u64 N, u64 lengths, u64 D,
//            i64 dimensions[N + 1], i64 element offsets[N + 1], i64 lengths[], i64 documents[D]
//
// Types: 1 u8, 2 i8, 3 i16, 4 i32, 5 i64, 8 u16; 6 and 7 are float and double in GPT-NeoX's dialect, double and float
// in Megatron's. Any sequence that has a token tells which by where it ends.
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

// Whether the file starts as an index does.
bool is_index_file(const Path& path);
// The names that IndexedFile takes, for help.
std::vector<std::string> index_dialects();
// NAME.bin where a person names NAME.idx, or NAME as Megatron does; otherwise `given`.
Path token_file_of(const Path& given);
// The index that belongs to NAME.bin; nothing where NAME.idx does not exist.
std::optional<Path> index_of(const Path& bin);

// An index and its tokens, mapped. Sequences are checked when they are asked for, so that opening costs nothing.
class IndexedFile {
 public:
  // `dialect` is "neox" or "megatron"; empty: whichever the file is of. Throws damaged() for a header that makes no
  // sense or has another size than it says, user_error for another version, type or dialect.
  explicit IndexedFile(const Path& bin, std::string_view dialect = {});

  int64_t num_sequences() const { return num_sequences_; }
  // As what its bytes, ids all of them, are shard tokens; nothing for i64 and floats.
  std::optional<ElementType> token_type() const;
  std::span<const std::byte> tokens() const { return tokens_.bytes(); }
  // First byte in the .bin file of sequence i, 0 <= i <= num_sequences(). Not checked.
  int64_t offset(int64_t i) const;
  // Puts the ids of sequence i into `ids`. Throws damaged() where it lies outside the file or not directly after the
  // one before; user_error for a value that is no id (negative, not whole, or too large).
  void read(int64_t i, std::vector<uint32_t>& ids) const;
  // The same of labels, which are ids or kIgnore.
  void read_labels(int64_t i, std::vector<int32_t>& labels) const;
  // The list of documents rises from 0 to the number of sequences. Throws damaged().
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
