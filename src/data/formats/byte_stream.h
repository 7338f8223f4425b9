// A file's bytes in order, decompressed on the way.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "base/file.h"

namespace hearth::data {

enum class Compression { kNone, kGzip, kZstd };

// "none", "gzip", "zstd"; stored in manifests: never change.
std::string_view compression_name(Compression compression);
Compression parse_compression(std::string_view name);  // throws user_error

// Found from a file's first bytes. A zstd file may start with a skippable frame.
Compression compression_of(std::string_view first_bytes);

class ByteStream {
 public:
  virtual ~ByteStream() = default;
  // Fills `buffer` from its start and returns the number of bytes; 0 only at the end. Throws damaged() for compressed
  // data that is cut short, has a wrong checksum or expands more than a thousandfold.
  virtual size_t read(std::span<char> buffer) = 0;
  virtual int64_t bytes_read() const = 0;  // of the file on disk
};

// A gzip file may have several members, a zstd file several frames: all are read. `begin` is the first byte to read, 0
// for compressed files.
std::unique_ptr<ByteStream> open_stream(const Path& path, Compression compression, int64_t begin = 0);

}  // namespace hearth::data
