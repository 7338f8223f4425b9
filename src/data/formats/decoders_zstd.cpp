// SPDX-License-Identifier: Apache-2.0
#include <zstd.h>
#include <zstd_errors.h>

#include "base/error.h"
#include "base/text.h"
#include "data/formats/decoders.h"

namespace hearth::data {
namespace {

class ZstdStream final : public Decompressor {
 public:
  explicit ZstdStream(const Path& path) : Decompressor(path), context_(ZSTD_createDCtx()) {
    constexpr int kWindowLog = 31;
    static_assert(int64_t{1} << kWindowLog == kMostWindowBytes);
    HEARTH_CHECK(context_ != nullptr);
    HEARTH_CHECK(ZSTD_isError(ZSTD_DCtx_setParameter(context_, ZSTD_d_windowLogMax, kWindowLog)) == 0);
  }
  ~ZstdStream() override { ZSTD_freeDCtx(context_); }

  size_t decode(std::span<char> buffer) override {
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
      if (ZSTD_isError(status) != 0) fail(status);
      frame_done_ = status == 0;
      if (ended_ && out.pos == 0 && !frame_done_) throw damaged("it is cut short", "its last zstd frame has no end");
    }
    return out.pos;
  }
  size_t bytes_left() const override { return in_.size - in_.pos; }

 private:
  [[noreturn]] void fail(size_t status) const {
    const ZSTD_ErrorCode code = ZSTD_getErrorCode(status);
    if (code == ZSTD_error_dictionary_wrong)
      throw user_error(
          fmt::format("{} needs a dictionary of zstd", file_.path().string()), "it was packed with one (zstd -D)",
          fmt::format("unpack it first: zstd -D DICTIONARY --decompress {}", shell_word(file_.path().string())));
    if (code == ZSTD_error_memory_allocation) refuse_window("zstd");
    if (code == ZSTD_error_frameParameter_windowTooLarge)
      throw damaged("its zstd data is damaged",
                    "a frame asks for a window of more than 2 GiB, the most that zstd itself writes (--long=31)");
    throw damaged("its zstd data is damaged", ZSTD_getErrorName(status));
  }

  ZSTD_DCtx* context_;
  ZSTD_inBuffer in_{nullptr, 0, 0};
  bool frame_done_ = true, ended_ = false;
};

}  // namespace

std::unique_ptr<ByteStream> open_zstd(const Path& path) { return std::make_unique<ZstdStream>(path); }

}  // namespace hearth::data
