// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "formats/crc32.h"
#include "formats/zip.h"

namespace hearth::formats {
namespace {

constexpr int64_t kEnd = 22, kEnd64Locator = 20, kEnd64 = 56, kEntry = 46;
constexpr int64_t kCrcPieceBytes = 1 << 20;
// One tensor's archive has fewer than ten members with short names; this limit suffices for whole state dicts, too.
constexpr int64_t kMaxDirectory = int64_t{64} << 20;

// Little-endian fields of a buffer; every access is checked.
class Fields {
 public:
  Fields(std::string_view bytes, const std::string& origin) : bytes_(bytes), origin_(origin) {}
  int64_t get(int64_t at, int width) const {
    const std::string_view field = text(at, width);
    uint64_t value = 0;
    for (int i = 0; i < width; ++i) value |= uint64_t{static_cast<uint8_t>(field[static_cast<size_t>(i)])} << (8 * i);
    if (value > static_cast<uint64_t>(INT64_MAX)) fail("a size is impossible");
    return static_cast<int64_t>(value);
  }
  std::string_view text(int64_t at, int64_t length) const {
    if (at < 0 || length < 0 || at > size() || length > size() - at) fail("a record is cut short");
    return bytes_.substr(static_cast<size_t>(at), static_cast<size_t>(length));
  }
  int64_t size() const { return static_cast<int64_t>(bytes_.size()); }
  [[noreturn]] void fail(const std::string& why) const {
    throw damaged(fmt::format("{}: not a torch.save file that can be read", origin_), why);
  }

 private:
  std::string_view bytes_;
  const std::string& origin_;
};

struct Archive {
  const File& file;
  int64_t offset, length;
  const std::string& origin;

  std::string read(int64_t at, int64_t count) const {
    if (at < 0 || count < 0 || at > length || count > length - at)
      Fields({}, origin).fail("a record lies outside of it");
    std::string bytes(static_cast<size_t>(count), '\0');
    file.read_at(offset + at, std::as_writable_bytes(std::span(bytes)));
    return bytes;
  }
};

struct Directory {
  int64_t offset, size, count;
};

Directory find_directory(const Archive& archive) {
  if (archive.length < kEnd) Fields({}, archive.origin).fail("it is shorter than an empty archive");
  const int64_t end_at = archive.length - kEnd;
  const std::string end_bytes = archive.read(end_at, kEnd);
  const Fields end(end_bytes, archive.origin);
  // torch.save writes no archive comment: the end record has a fixed place.
  if (end.text(0, 4) != "PK\x05\x06") end.fail("the end record is missing");
  Directory directory{end.get(16, 4), end.get(12, 4), end.get(10, 2)};
  int64_t records_at = end_at;
  if (directory.offset == kZipMax32 || directory.size == kZipMax32 || directory.count == 0xffff) {
    const std::string locator_bytes = archive.read(end_at - kEnd64Locator, kEnd64Locator);
    const Fields locator(locator_bytes, archive.origin);
    if (locator.text(0, 4) != "PK\x06\x07") end.fail("the 64-bit end locator is missing");
    records_at = locator.get(8, 8);
    const std::string end64_bytes = archive.read(records_at, kEnd64);
    const Fields end64(end64_bytes, archive.origin);
    if (end64.text(0, 4) != "PK\x06\x06") end.fail("the 64-bit end record is missing");
    directory = {end64.get(48, 8), end64.get(40, 8), end64.get(32, 8)};
  }
  if (directory.size > kMaxDirectory) end.fail("its directory is too large");
  if (directory.offset > records_at || directory.size > records_at - directory.offset)
    end.fail("its directory lies outside of it");
  if (directory.count > directory.size / kEntry) end.fail("its directory is too small for its members");
  return directory;
}

// Replaces 32-bit fields of the largest value by those of the zip64 extra field, in the order of the format.
void apply_zip64(const Fields& extra, int64_t& size, int64_t& stored_size, int64_t& header_at) {
  for (int64_t at = 0; at + 4 <= extra.size();) {
    const int64_t id = extra.get(at, 2), length = extra.get(at + 2, 2);
    extra.text(at + 4, length);
    if (id == 1) {
      int64_t field = at + 4;
      for (int64_t* value : {&size, &stored_size, &header_at}) {
        if (*value != kZipMax32) continue;
        if (field + 8 > at + 4 + length) extra.fail("a 64-bit size is missing");
        *value = extra.get(field, 8);
        field += 8;
      }
      return;
    }
    at += 4 + length;
  }
}

}  // namespace

std::vector<ZipMember> read_zip_directory(const File& file, int64_t offset, int64_t length, const std::string& origin) {
  const Archive archive{file, offset, length, origin};
  const Directory directory = find_directory(archive);
  const std::string entries = archive.read(directory.offset, directory.size);
  const Fields fields(entries, origin);
  std::vector<ZipMember> members;
  int64_t at = 0;
  for (int64_t i = 0; i < directory.count; ++i) {
    if (fields.text(at, 4) != "PK\x01\x02") fields.fail("a directory entry is damaged");
    const int64_t name_length = fields.get(at + 28, 2), extra_length = fields.get(at + 30, 2);
    ZipMember member;
    member.name = fields.text(at + kEntry, name_length);
    member.crc = static_cast<uint32_t>(fields.get(at + 16, 4));
    int64_t stored_size = fields.get(at + 20, 4), size = fields.get(at + 24, 4), header_at = fields.get(at + 42, 4);
    apply_zip64(Fields(fields.text(at + kEntry + name_length, extra_length), origin), size, stored_size, header_at);
    // Bit 0: encrypted. Bit 3 (sizes after the data) is harmless: the directory has the sizes.
    if ((fields.get(at + 8, 2) & 1) != 0) fields.fail(member.name + " is encrypted");
    if (fields.get(at + 10, 2) != 0 || size != stored_size) fields.fail(member.name + " is compressed");
    at += kEntry + name_length + extra_length + fields.get(at + 32, 2);

    const std::string header_bytes = archive.read(header_at, kZipLocalHeader);
    const Fields header(header_bytes, origin);
    if (header.text(0, 4) != "PK\x03\x04") fields.fail("the header of " + member.name + " is missing");
    if (header.get(26, 2) != name_length || archive.read(header_at + kZipLocalHeader, name_length) != member.name)
      fields.fail("header and directory disagree on " + member.name);
    const int64_t data_at = header_at + kZipLocalHeader + name_length + header.get(28, 2);
    if (data_at > directory.offset || size > directory.offset - data_at)
      fields.fail(member.name + " lies outside of the archive");
    member.offset = offset + data_at;
    member.length = size;
    members.push_back(std::move(member));
  }
  return members;
}

uint32_t crc_of(const File& file, const ZipMember& member) {
  std::vector<std::byte> buffer(static_cast<size_t>(std::min(member.length, kCrcPieceBytes)));
  uint32_t crc = 0;
  for (int64_t at = 0; at < member.length;) {
    const std::span<std::byte> part =
        std::span(buffer).first(static_cast<size_t>(std::min(member.length - at, kCrcPieceBytes)));
    file.read_at(member.offset + at, part);
    crc = crc32(crc, part);
    at += static_cast<int64_t>(part.size());
  }
  return crc;
}

const ZipMember* find_member(const std::vector<ZipMember>& members, std::string_view name) {
  for (const ZipMember& member : members) {
    const size_t slash = member.name.find('/');
    if (slash != std::string::npos && std::string_view(member.name).substr(slash + 1) == name) return &member;
  }
  return nullptr;
}

}  // namespace hearth::formats
