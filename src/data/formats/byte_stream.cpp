#include "data/formats/byte_stream.h"

#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "base/error.h"

namespace hearth::data {
namespace {

constexpr size_t kChunkBytes = 256 << 10;
// gzip reaches 1032 at most, on a file of one byte repeated; text reaches 3 to 10. Output up to kFreeBytes has no
// limit.
constexpr int64_t kMostExpansion = 1000, kFreeBytes = 256 << 20;

// Reads the file on disk, one chunk at a time.
class RawFile {
 public:
  RawFile(const Path& path, int64_t begin)
      : file_(File::open_read(path)), at_(begin), size_(file_.size_bytes()), chunk_(kChunkBytes) {}

  size_t read(std::span<char> buffer) {
    const auto n = static_cast<size_t>(std::min(static_cast<int64_t>(buffer.size()), size_ - at_));
    if (n > 0) file_.read_at(at_, std::as_writable_bytes(buffer.first(n)));
    at_ += static_cast<int64_t>(n);
    return n;
  }
  // The next chunk; empty at the end.
  std::string_view next_chunk() { return {chunk_.data(), read(chunk_)}; }
  int64_t at() const { return at_; }

  void check_expansion(int64_t produced) const {
    if (produced > kFreeBytes && produced / kMostExpansion > at_)
      throw damaged(fmt::format("{} bytes expand to more than {}", at_, produced), "it looks like a zip bomb");
  }

 private:
  File file_;
  int64_t at_, size_;
  std::vector<char> chunk_;
};

class PlainStream final : public ByteStream {
 public:
  PlainStream(const Path& path, int64_t begin) : begin_(begin), file_(path, begin) {}
  size_t read(std::span<char> buffer) override { return file_.read(buffer); }
  int64_t bytes_read() const override { return file_.at() - begin_; }

 private:
  int64_t begin_;
  RawFile file_;
};

class GzipStream final : public ByteStream {
 public:
  explicit GzipStream(const Path& path) : file_(path, 0) {
    constexpr int kGzipWindow = 15 + 16;  // zlib.h: +16 reads gzip's header and checks its trailer
    HEARTH_CHECK(::inflateInit2(&inflate_, kGzipWindow) == Z_OK);
  }
  ~GzipStream() override { ::inflateEnd(&inflate_); }
  GzipStream(const GzipStream&) = delete;
  GzipStream& operator=(const GzipStream&) = delete;

  size_t read(std::span<char> buffer) override {
    inflate_.next_out = reinterpret_cast<Bytef*>(buffer.data());
    inflate_.avail_out = static_cast<uInt>(buffer.size());
    while (inflate_.avail_out == buffer.size()) {
      if (inflate_.avail_in == 0) refill();
      if (between_members_ && !find_member()) return 0;
      if (inflate_.avail_in == 0) throw damaged("it is cut short", "its last gzip member has no end");
      const int status = ::inflate(&inflate_, Z_NO_FLUSH);
      if (status == Z_STREAM_END) {
        between_members_ = true;
        ::inflateReset(&inflate_);
      } else if (status != Z_OK) {
        throw damaged("its gzip data is damaged", inflate_.msg == nullptr ? "" : inflate_.msg);
      }
    }
    const size_t n = buffer.size() - inflate_.avail_out;
    produced_ += static_cast<int64_t>(n);
    file_.check_expansion(produced_);
    return n;
  }
  int64_t bytes_read() const override { return file_.at() - inflate_.avail_in; }

 private:
  void refill() {
    const std::string_view chunk = file_.next_chunk();
    inflate_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(chunk.data()));
    inflate_.avail_in = static_cast<uInt>(chunk.size());
  }

  // False at the end of the file. Zero bytes may follow a member (tapes); all other bytes must be another member.
  bool find_member() {
    for (;;) {
      while (inflate_.avail_in > 0 && *inflate_.next_in == 0) {
        ++inflate_.next_in;
        --inflate_.avail_in;
      }
      if (inflate_.avail_in > 0) break;
      refill();
      if (inflate_.avail_in == 0) return false;
    }
    between_members_ = false;
    return true;
  }

  RawFile file_;
  z_stream inflate_{};
  bool between_members_ = false;
  int64_t produced_ = 0;
};

class ZstdStream final : public ByteStream {
 public:
  explicit ZstdStream(const Path& path) : file_(path, 0), context_(ZSTD_createDCtx()) {
    HEARTH_CHECK(context_ != nullptr);
  }
  ~ZstdStream() override { ZSTD_freeDCtx(context_); }
  ZstdStream(const ZstdStream&) = delete;
  ZstdStream& operator=(const ZstdStream&) = delete;

  size_t read(std::span<char> buffer) override {
    ZSTD_outBuffer out{buffer.data(), buffer.size(), 0};
    while (out.pos == 0) {
      if (in_.pos == in_.size) {
        const std::string_view chunk = file_.next_chunk();
        in_ = {chunk.data(), chunk.size(), 0};
        // A call without input returns the decoder's remaining output.
        if (chunk.empty() && frame_done_) return 0;
        ended_ = chunk.empty();
      }
      const size_t status = ZSTD_decompressStream(context_, &out, &in_);
      if (ZSTD_isError(status) != 0) throw damaged("its zstd data is damaged", ZSTD_getErrorName(status));
      frame_done_ = status == 0;
      if (ended_ && out.pos == 0 && !frame_done_) throw damaged("it is cut short", "its last zstd frame has no end");
    }
    produced_ += static_cast<int64_t>(out.pos);
    file_.check_expansion(produced_);
    return out.pos;
  }
  int64_t bytes_read() const override { return file_.at() - static_cast<int64_t>(in_.size - in_.pos); }

 private:
  RawFile file_;
  ZSTD_DCtx* context_;
  ZSTD_inBuffer in_{nullptr, 0, 0};
  bool frame_done_ = true, ended_ = false;
  int64_t produced_ = 0;
};

constexpr std::array<std::string_view, 3> kCompressions = {"none", "gzip", "zstd"};

}  // namespace

std::string_view compression_name(Compression compression) {
  return kCompressions.at(static_cast<size_t>(compression));
}

Compression parse_compression(std::string_view name) {
  const auto* found = std::find(kCompressions.begin(), kCompressions.end(), name);
  if (found == kCompressions.end()) throw user_error(fmt::format("there is no compression \"{}\"", name));
  return static_cast<Compression>(found - kCompressions.begin());
}

Compression compression_of(std::string_view first_bytes) {
  if (first_bytes.starts_with("\x1f\x8b\x08")) return Compression::kGzip;
  if (first_bytes.starts_with("\x28\xb5\x2f\xfd")) return Compression::kZstd;
  const bool skippable = first_bytes.size() >= 4 && (static_cast<unsigned char>(first_bytes[0]) & 0xF0) == 0x50 &&
                         first_bytes.substr(1, 3) == "\x2a\x4d\x18";
  return skippable ? Compression::kZstd : Compression::kNone;
}

std::unique_ptr<ByteStream> open_stream(const Path& path, Compression compression, int64_t begin) {
  HEARTH_CHECK(begin == 0 || compression == Compression::kNone);
  switch (compression) {
    case Compression::kGzip:
      return std::make_unique<GzipStream>(path);
    case Compression::kZstd:
      return std::make_unique<ZstdStream>(path);
    case Compression::kNone:
      break;
  }
  return std::make_unique<PlainStream>(path, begin);
}

}  // namespace hearth::data
