// SPDX-License-Identifier: Apache-2.0
#include "data/formats/decoders.h"

#include <algorithm>

#include "base/error.h"

namespace hearth::data {
namespace {

constexpr size_t kChunkBytes = 256 << 10;
// gzip reaches 1032 at most, on a file of one byte repeated; text reaches 3 to 10. Output up to kFreeBytes has no
// limit.
constexpr int64_t kMostExpansion = 1000, kFreeBytes = 256 << 20;

}  // namespace

RawFile::RawFile(const Path& path, int64_t begin)
    : file_(File::open_read(path)), at_(begin), size_(file_.size_bytes()), chunk_(kChunkBytes) {}

size_t RawFile::read(std::span<char> buffer) {
  const auto n = static_cast<size_t>(std::min(static_cast<int64_t>(buffer.size()), size_ - at_));
  if (n > 0) file_.read_at(at_, std::as_writable_bytes(buffer.first(n)));
  at_ += static_cast<int64_t>(n);
  return n;
}

size_t Decompressor::read(std::span<char> buffer) {
  const size_t size = decode(buffer);
  produced_ += static_cast<int64_t>(size);
  if (produced_ > kFreeBytes && produced_ / kMostExpansion > file_.at())
    throw damaged(fmt::format("{} bytes expand to more than {}", file_.at(), produced_), "it looks like a zip bomb");
  return size;
}

void Decompressor::refuse_window(std::string_view compression) const {
  throw Error(ExitCode::kHardware, fmt::format("there is not enough memory to unpack {}", file_.path().string()),
              fmt::format("{} got no memory for its window", compression),
              "give fewer --threads: each unpacks a file of its own");
}

}  // namespace hearth::data
