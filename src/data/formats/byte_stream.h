// SPDX-License-Identifier: Apache-2.0
// A file's bytes in order, decompressed on the way.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/file.h"

namespace hearth::data {

enum class Compression { kNone, kGzip, kZstd, kXz, kBzip2 };

// "none", "gzip", "zstd", "xz", "bzip2"; stored in manifests: never change.
std::string_view compression_name(Compression compression);
Compression parse_compression(std::string_view name);  // throws user_error

// Found from a file's first ten bytes. A zstd file may start with a skippable frame.
Compression compression_of(std::string_view first_bytes);

class ByteStream {
 public:
  virtual ~ByteStream() = default;
  // Fills `buffer` from its start and returns the number of bytes; 0 only at the end. Throws damaged() for compressed
  // data that is cut short, has a wrong checksum or expands more than a thousandfold.
  virtual size_t read(std::span<char> buffer) = 0;
  virtual int64_t bytes_read() const = 0;  // of the file on disk
};

// A gzip file may have several members, a zstd file several frames, an xz or bzip2 file several streams: all are read.
// Some files need up to 2 GiB of memory to be unpacked (`zstd --long=31`). `begin` is the first byte to read, 0 for
// compressed files.
std::unique_ptr<ByteStream> open_stream(const Path& path, Compression compression, int64_t begin = 0);
// A stream of `text`, which must outlive it.
std::unique_ptr<ByteStream> open_text(std::string_view text);
// The first `count` bytes of the uncompressed content, or fewer if the file is shorter or is damaged there.
std::string first_bytes(const Path& path, Compression compression, size_t count);
// The file's name in lower case, without a compressor's ending: "x.jsonl" for X.JSONL.gz.
std::string plain_name(const Path& path);

}  // namespace hearth::data
