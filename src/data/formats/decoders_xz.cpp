// SPDX-License-Identifier: Apache-2.0
#include <lzma.h>

#include "base/error.h"
#include "data/formats/decoders.h"

namespace hearth::data {
namespace {

class XzStream final : public Decompressor {
 public:
  explicit XzStream(const Path& path) : Decompressor(path) {}
  ~XzStream() override { ::lzma_end(&lzma_); }

  size_t decode(std::span<char> buffer) override {
    lzma_.next_out = reinterpret_cast<uint8_t*>(buffer.data());
    lzma_.avail_out = buffer.size();
    while (!done_ && lzma_.avail_out == buffer.size()) {
      if (lzma_.avail_in == 0 && !ended_) {
        const std::string_view chunk = file_.next_chunk();
        lzma_.next_in = reinterpret_cast<const uint8_t*>(chunk.data());
        lzma_.avail_in = chunk.size();
        ended_ = chunk.empty();
      }
      if (between_streams_ && !begin_stream()) continue;
      const lzma_ret status = ::lzma_code(&lzma_, ended_ ? LZMA_FINISH : LZMA_RUN);
      between_streams_ = status == LZMA_STREAM_END;
      if (status != LZMA_OK && !between_streams_) fail(status);
    }
    return buffer.size() - lzma_.avail_out;
  }
  size_t bytes_left() const override { return lzma_.avail_in; }

 private:
  // False if nothing follows, or only zeros so far, which may pad a stream. LZMA_CONCATENATED would take a few other
  // bytes for a stream that is cut short.
  bool begin_stream() {
    for (; lzma_.avail_in > 0 && *lzma_.next_in == 0; --lzma_.avail_in) ++lzma_.next_in;
    done_ = lzma_.avail_in == 0 && ended_;
    if (lzma_.avail_in == 0) return false;
    constexpr uint8_t kFirstOfMark = 0xfd;
    if (*lzma_.next_in != kFirstOfMark) fail(LZMA_FORMAT_ERROR);
    // What the decoder needs beside its window is far below a mebibyte.
    constexpr uint64_t kMostMemory = kMostWindowBytes + (1 << 20);
    const lzma_ret status = ::lzma_stream_decoder(&lzma_, kMostMemory, 0);
    if (status == LZMA_MEM_ERROR) refuse_window("xz");
    HEARTH_CHECK(status == LZMA_OK);
    return true;
  }

  [[noreturn]] void fail(lzma_ret status) {
    switch (status) {
      case LZMA_MEM_ERROR:
        refuse_window("xz");
      case LZMA_MEMLIMIT_ERROR:
        throw user_error(
            fmt::format("{} needs {} bytes of memory to be unpacked", file_.path().string(), ::lzma_memusage(&lzma_)),
            "its xz dictionary is larger than 2 GiB", "compress it again with a smaller dictionary");
      case LZMA_BUF_ERROR:
        throw damaged("it is cut short", "its last xz stream has no end");
      case LZMA_FORMAT_ERROR:
        throw damaged("its xz data is damaged", "bytes that are no xz stream follow a stream");
      case LZMA_OPTIONS_ERROR:
        throw damaged("its xz data is damaged", "a block has unknown options");
      default:
        throw damaged("its xz data is damaged", "a checksum or a code is wrong");
    }
  }

  lzma_stream lzma_ = LZMA_STREAM_INIT;
  bool ended_ = false, done_ = false;  // the file; all of its streams
  bool between_streams_ = true;
};

}  // namespace

std::unique_ptr<ByteStream> open_xz(const Path& path) { return std::make_unique<XzStream>(path); }

}  // namespace hearth::data
