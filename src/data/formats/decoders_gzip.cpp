// SPDX-License-Identifier: Apache-2.0
#include <zlib.h>

#include "base/error.h"
#include "data/formats/decoders.h"

namespace hearth::data {
namespace {

class GzipStream final : public Decompressor {
 public:
  explicit GzipStream(const Path& path) : Decompressor(path) {
    constexpr int kGzipWindow = 15 + 16;  // zlib.h: +16 reads gzip's header and checks its trailer
    HEARTH_CHECK(::inflateInit2(&inflate_, kGzipWindow) == Z_OK);
  }
  ~GzipStream() override { ::inflateEnd(&inflate_); }

  size_t decode(std::span<char> buffer) override {
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
    return buffer.size() - inflate_.avail_out;
  }
  size_t bytes_left() const override { return inflate_.avail_in; }

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

  z_stream inflate_{};
  bool between_members_ = false;
};

}  // namespace

std::unique_ptr<ByteStream> open_gzip(const Path& path) { return std::make_unique<GzipStream>(path); }

}  // namespace hearth::data
