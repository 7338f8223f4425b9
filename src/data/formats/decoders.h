// SPDX-License-Identifier: Apache-2.0
// Decoders of compressed files, each a ByteStream: see byte_stream.h.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "data/formats/byte_stream.h"

namespace hearth::data {

// The most memory that a decoder takes for its window: earlier text, which later text may repeat. It is what
// `zstd --long=31` needs.
inline constexpr int64_t kMostWindowBytes = int64_t{2} << 30;

// Reads the file on disk, one chunk at a time.
class RawFile {
 public:
  RawFile(const Path& path, int64_t begin);

  size_t read(std::span<char> buffer);
  // The next chunk; empty at the end.
  std::string_view next_chunk() { return {chunk_.data(), read(chunk_)}; }
  int64_t at() const { return at_; }
  const Path& path() const { return file_.path(); }

 private:
  File file_;
  int64_t at_, size_;
  std::vector<char> chunk_;
};

// What all decoders have in common.
class Decompressor : public ByteStream {
 public:
  explicit Decompressor(const Path& path) : file_(path, 0) {}
  Decompressor(const Decompressor&) = delete;
  Decompressor& operator=(const Decompressor&) = delete;
  size_t read(std::span<char> buffer) final;
  int64_t bytes_read() const final { return file_.at() - static_cast<int64_t>(bytes_left()); }

 protected:
  virtual size_t decode(std::span<char> buffer) = 0;  // read(), without the check of the expansion
  virtual size_t bytes_left() const = 0;              // of the chunk
  // Throws that the decoder got no memory for its window: kHardware, with the file's name.
  [[noreturn]] void refuse_window(std::string_view compression) const;

  RawFile file_;

 private:
  int64_t produced_ = 0;
};

std::unique_ptr<ByteStream> open_gzip(const Path& path);
std::unique_ptr<ByteStream> open_zstd(const Path& path);
std::unique_ptr<ByteStream> open_xz(const Path& path);
std::unique_ptr<ByteStream> open_bzip2(const Path& path);

}  // namespace hearth::data
