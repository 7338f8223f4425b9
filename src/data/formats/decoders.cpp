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

void RawFile::check_expansion(int64_t produced) const {
  if (produced > kFreeBytes && produced / kMostExpansion > at_)
    throw damaged(fmt::format("{} bytes expand to more than {}", at_, produced), "it looks like a zip bomb");
}

void refuse_window(const RawFile& file, std::string_view compression) {
  throw Error(ExitCode::kHardware, fmt::format("there is not enough memory to unpack {}", file.path().string()),
              fmt::format("{} got no memory for its window", compression),
              "give fewer --threads: each unpacks a file of its own");
}

}  // namespace hearth::data
