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

// Told by a file's first bytes. A zstd file may start with a skippable frame.
Compression compression_of(std::string_view first_bytes);

class ByteStream {
 public:
  virtual ~ByteStream() = default;
  // Fills `buffer` from its start and returns how many bytes; 0 at the end only. Throws damaged() for compressed data
  // that is cut short, has a wrong checksum or expands more than a thousandfold.
  virtual size_t read(std::span<char> buffer) = 0;
  virtual int64_t bytes_read() const = 0;  // of the file, as it lies on disk
};

// gzip files may have several members, zstd files several frames: they are read to the end of the file. `begin`: where
// in the file to start; 0 for compressed ones.
std::unique_ptr<ByteStream> open_stream(const Path& path, Compression compression, int64_t begin = 0);

}  // namespace hearth::data
