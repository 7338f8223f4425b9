// SPDX-License-Identifier: Apache-2.0
// The shard: one file of named columns. docs/data_format.md describes every byte; this is the same in C++.
//
//   header | column data, one column after another | column table | checksum table
//
// All integers are little-endian. The data between header and tables are cut into blocks of equal size, each with its
// XXH3-64. The header has the XXH3-64 of both tables and of itself. So no byte of the file is unprotected, and the
// header's checksum stands for the whole content.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/file.h"
#include "data/formats/element_type.h"

namespace hearth::data {

// The fix that every error about a damaged or missing shard names.
inline constexpr const char* kRebuild = "restore the file from a copy, or build the dataset again";
Error bad_shard(const Path& path, std::string why);  // "shard PATH is damaged"

// Stored on disk: never change.
inline constexpr char kShardMagic[8] = {'H', 'R', 'T', 'H', 'S', 'H', 'R', 'D'};
inline constexpr uint32_t kShardVersion = 1;
inline constexpr uint32_t kOutsideVersion = 2;  // of shards whose tokens are in another file
inline constexpr uint64_t kColumnAlignment = 64;
// Small enough that a window's first read loads little else; large enough that the table is 1/8192 of the data.
inline constexpr uint64_t kDefaultBlockBytes = uint64_t{64} * 1024;

// The axis of a column's rows. Stored on disk: never renumber.
enum class ColumnAxis : uint32_t {
  kToken = 1,     // rows = the shard's tokens (for 2-D arrays: their cells)
  kDocument = 2,  // rows = the shard's documents: document ends, shapes of 2-D arrays, any metadata
  kShard = 3,     // any number of rows; only in version 2
};

// The place of a column's data. Stored on disk: never renumber.
enum class Storage : uint32_t {
  kHere = 0,     // in the shard
  kOutside = 1,  // in the file that the columns below name; only in version 2, one column per shard
};

struct ShardHeader {
  char magic[8];
  uint32_t version;
  uint32_t header_bytes;  // sizeof(ShardHeader); data starts here
  uint64_t file_bytes;    // a shorter file is cut short
  uint64_t block_bytes;   // a power of two
  uint64_t num_tokens;
  uint64_t num_documents;
  uint64_t columns_offset;    // of the column table; the data blocks end here
  uint64_t checksums_offset;  // of the checksum table: num_blocks times u64
  uint64_t num_blocks;
  uint32_t num_columns;
  uint32_t reserved;         // 0
  uint8_t identity[16];      // of the shard's inputs: see docs/data_format.md
  uint64_t tables_checksum;  // XXH3-64 from columns_offset to the end of the file
  uint64_t zeros[2];         // 0
  uint64_t header_checksum;  // XXH3-64 of the bytes before it
};
static_assert(sizeof(ShardHeader) == 128);

struct ColumnEntry {
  char name[32];  // ASCII, padded with zero bytes
  uint32_t element_type;
  uint32_t axis;
  uint32_t row_rank;  // number of used entries of row_shape; 0: one element per row
  uint32_t storage;
  uint64_t row_shape[4];
  uint64_t num_rows;
  uint64_t data_offset;  // in the file; for kHere a multiple of kColumnAlignment
  uint64_t data_bytes;   // num_rows * elements of a row * size of an element
  uint64_t zero;         // 0
};
static_assert(sizeof(ColumnEntry) == 112);

// Column names with a meaning. Readers ignore columns they do not know.
inline constexpr std::string_view kTokensColumn = "tokens";    // kToken, u8, u16 or u32
inline constexpr std::string_view kWeightsColumn = "weights";  // kToken, u8 (0 or 1) or f32; only if one is not 1
inline constexpr std::string_view kDocumentEndsColumn = "document_ends";  // kDocument, u64: tokens up to its end
inline constexpr std::string_view kTextBytesColumn = "text_bytes";  // kDocument, u64: bytes of the document's text
inline constexpr std::string_view kSourceColumn = "source";         // kDocument, u32: index in manifest "sources"
// kDocument, u32; only in shards with a value other than 0: tokenizer::EncodeCounts of each document.
inline constexpr std::string_view kSpecialTextColumn = "special_text";
inline constexpr std::string_view kBytesReplacedColumn = "bytes_replaced";
// For arrays: `tokens` has their counts, [bins, neurons], one array after another; document_ends counts these.
inline constexpr std::string_view kArrayShapeColumn = "array_shape";  // kDocument, u64 [2]: bins, neurons
inline constexpr std::string_view kStreamEndsColumn = "stream_ends";  // kDocument, u64: tokens as read, up to its end
inline constexpr std::string_view kSourceOffsetColumn = "source_offset";  // kDocument, u64: first byte in that source

// In version 2, on axis kShard, about the column with data in another file:
inline constexpr std::string_view kOutsidePathColumn = "outside_path";            // u8: the file's absolute path
inline constexpr std::string_view kOutsideBytesColumn = "outside_bytes";          // u64: one row, the file's size
inline constexpr std::string_view kOutsideChecksumsColumn = "outside_checksums";  // u64: XXH3-64 of each of its blocks

// Bytes of an element; 0 for a number that is no ElementType.
uint64_t element_size(uint32_t element_type);
std::string_view element_type_name(uint32_t element_type);  // "u16"; "?" for an unknown one

// The narrowest of u8, u16, u32 that holds ids below vocab_size.
ElementType token_type(int64_t vocab_size);

}  // namespace hearth::data
