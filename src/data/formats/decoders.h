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

// The most memory that a decoder takes for the text before its place, which later text repeats. It is what
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
  // Throws damaged() if `produced` bytes came from an improbably small part of the file.
  void check_expansion(int64_t produced) const;

 private:
  File file_;
  int64_t at_, size_;
  std::vector<char> chunk_;
};

std::unique_ptr<ByteStream> open_gzip(const Path& path);
std::unique_ptr<ByteStream> open_zstd(const Path& path);
std::unique_ptr<ByteStream> open_xz(const Path& path);
std::unique_ptr<ByteStream> open_bzip2(const Path& path);

// What a decoder throws that got no memory for its window: kHardware, with the file's name.
[[noreturn]] void refuse_window(const RawFile& file, std::string_view compression);

}  // namespace hearth::data
