// SPDX-License-Identifier: Apache-2.0
#include "data/formats/byte_stream.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <string>

#include "base/error.h"
#include "data/formats/decoders.h"

namespace hearth::data {
namespace {

class PlainStream final : public ByteStream {
 public:
  PlainStream(const Path& path, int64_t begin) : begin_(begin), file_(path, begin) {}
  size_t read(std::span<char> buffer) override { return file_.read(buffer); }
  int64_t bytes_read() const override { return file_.at() - begin_; }

 private:
  int64_t begin_;
  RawFile file_;
};

class TextStream final : public ByteStream {
 public:
  explicit TextStream(std::string_view text) : text_(text) {}
  size_t read(std::span<char> buffer) override {
    const size_t n = text_.copy(buffer.data(), buffer.size(), at_);
    at_ += n;
    return n;
  }
  int64_t bytes_read() const override { return static_cast<int64_t>(at_); }

 private:
  std::string_view text_;
  size_t at_ = 0;
};

struct CompressionRow {
  std::string_view name;
  std::unique_ptr<ByteStream> (*open)(const Path& path);
};
// In the order of the enum.
constexpr std::array<CompressionRow, 5> kCompressions = {
    {{"none", nullptr}, {"gzip", open_gzip}, {"zstd", open_zstd}, {"xz", open_xz}, {"bzip2", open_bzip2}}};

}  // namespace

std::string_view compression_name(Compression compression) {
  return kCompressions.at(static_cast<size_t>(compression)).name;
}

Compression parse_compression(std::string_view name) {
  const auto* found = std::ranges::find(kCompressions, name, &CompressionRow::name);
  if (found == kCompressions.end()) throw user_error(fmt::format("there is no compression \"{}\"", name));
  return static_cast<Compression>(found - kCompressions.begin());
}

Compression compression_of(std::string_view first_bytes) {
  if (first_bytes.starts_with("\x1f\x8b\x08")) return Compression::kGzip;
  if (first_bytes.starts_with("\x28\xb5\x2f\xfd")) return Compression::kZstd;
  if (first_bytes.starts_with(std::string_view("\xfd"
                                               "7zXZ\0",
                                               6)))
    return Compression::kXz;
  // "BZh", the size of a block, then the mark of a block or of the end of an empty file.
  if (first_bytes.size() >= 10 && first_bytes.starts_with("BZh") && first_bytes[3] >= '1' && first_bytes[3] <= '9') {
    const std::string_view mark = first_bytes.substr(4, 6);
    if (mark == "1AY&SY" || mark == "\x17rE8P\x90") return Compression::kBzip2;
  }
  const bool skippable = first_bytes.size() >= 4 && (static_cast<unsigned char>(first_bytes[0]) & 0xF0) == 0x50 &&
                         first_bytes.substr(1, 3) == "\x2a\x4d\x18";
  return skippable ? Compression::kZstd : Compression::kNone;
}

std::unique_ptr<ByteStream> open_stream(const Path& path, Compression compression, int64_t begin) {
  HEARTH_CHECK(begin == 0 || compression == Compression::kNone);
  if (compression == Compression::kNone) return std::make_unique<PlainStream>(path, begin);
  return kCompressions.at(static_cast<size_t>(compression)).open(path);
}

std::unique_ptr<ByteStream> open_text(std::string_view text) { return std::make_unique<TextStream>(text); }

std::string first_bytes(const Path& path, Compression compression, size_t count) {
  std::string text(count, '\0');
  size_t size = 0;
  try {
    const auto stream = open_stream(path, compression);
    for (size_t n = 1; n > 0 && size < text.size(); size += n) n = stream->read(std::span(text).subspan(size));
  } catch (const Error& e) {
    if (e.code() != ExitCode::kDamaged) throw;  // later damage is found when the file is read
  }
  text.resize(size);
  return text;
}

std::string plain_name(const Path& path) {
  std::string name = path.filename().string();
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  for (const std::string_view ending : {".gz", ".zst", ".zstd", ".xz", ".bz2"}) {
    if (name.ends_with(ending)) name.resize(name.size() - ending.size());
  }
  return name;
}

}  // namespace hearth::data
