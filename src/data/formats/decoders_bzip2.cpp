// SPDX-License-Identifier: Apache-2.0
#include <bzlib.h>

#include "base/error.h"
#include "data/formats/decoders.h"

namespace hearth::data {
namespace {

class Bzip2Stream final : public Decompressor {
 public:
  explicit Bzip2Stream(const Path& path) : Decompressor(path) { begin_stream(); }
  ~Bzip2Stream() override { ::BZ2_bzDecompressEnd(&bzip2_); }

  // Some files have many streams: those of pbzip2, and dumps of Wikipedia.
  size_t decode(std::span<char> buffer) override {
    bzip2_.next_out = buffer.data();
    bzip2_.avail_out = static_cast<unsigned>(buffer.size());
    while (bzip2_.avail_out == buffer.size()) {
      if (bzip2_.avail_in == 0 && !refill()) {
        if (between_streams_) return 0;
        throw damaged("it is cut short", "its last bzip2 stream has no end");
      }
      if (between_streams_) {
        ::BZ2_bzDecompressEnd(&bzip2_);
        begin_stream();
      }
      const int status = ::BZ2_bzDecompress(&bzip2_);
      between_streams_ = status == BZ_STREAM_END;
      if (status == BZ_MEM_ERROR) refuse_window("bzip2");
      if (status == BZ_DATA_ERROR_MAGIC)
        throw damaged("its bzip2 data is damaged", "bytes that are no bzip2 stream follow a stream");
      if (status != BZ_OK && !between_streams_)
        throw damaged("its bzip2 data is damaged", "a checksum or a code is wrong");
    }
    return buffer.size() - bzip2_.avail_out;
  }
  size_t bytes_left() const override { return bzip2_.avail_in; }

 private:
  // Keeps the input and output that are left.
  void begin_stream() {
    if (::BZ2_bzDecompressInit(&bzip2_, /*verbosity=*/0, /*small=*/0) != BZ_OK) refuse_window("bzip2");
    between_streams_ = false;
  }

  bool refill() {
    const std::string_view chunk = file_.next_chunk();
    bzip2_.next_in = const_cast<char*>(chunk.data());
    bzip2_.avail_in = static_cast<unsigned>(chunk.size());
    return !chunk.empty();
  }

  bz_stream bzip2_{};
  bool between_streams_ = false;
};

}  // namespace

std::unique_ptr<ByteStream> open_bzip2(const Path& path) { return std::make_unique<Bzip2Stream>(path); }

}  // namespace hearth::data
