#include <fmt/format.h>
#include <zlib.h>

#include "base/error.h"
#include "base/quantity.h"
#include "formats/zip.h"

namespace hearth::formats {
namespace {

constexpr int64_t kAlignment = 64;

void put(std::string& out, int64_t value, int width) {
  for (int i = 0; i < width; ++i) out.push_back(static_cast<char>(value >> (8 * i) & 0xff));
}

// The common fields of local header and directory entry, from "version needed" to the sizes. The date is always
// 1980-01-01 00:00: the same tensors give the same bytes.
void put_common(std::string& out, uint32_t crc, int64_t size, bool zip64) {
  put(out, zip64 ? 45 : 20, 2);  // version needed
  put(out, 0, 2);                // flags
  put(out, 0, 2);                // stored
  put(out, 0, 2);                // time
  put(out, 0x21, 2);             // date
  put(out, crc, 4);
  put(out, zip64 ? kZipMax32 : size, 4);  // compressed
  put(out, zip64 ? kZipMax32 : size, 4);  // uncompressed
}

}  // namespace

void ZipWriter::add(const std::string& name, std::span<const std::byte> data) {
  Member& member = members_.emplace_back();
  member.name = name;
  member.data = data;
  member.crc = static_cast<uint32_t>(::crc32_z(0, reinterpret_cast<const Bytef*>(data.data()), data.size()));
  member.offset = position_;
  const int64_t size = static_cast<int64_t>(data.size());
  const bool zip64 = size >= kZipMax32;

  // Extra fields: the 64-bit sizes (id 1) if needed, then padding with torch.save's id "FB" up to the alignment.
  std::string extra;
  if (zip64) {
    put(extra, 1, 2);
    put(extra, 16, 2);
    put(extra, size, 8);
    put(extra, size, 8);
  }
  const int64_t unpadded = position_ + kZipLocalHeader + static_cast<int64_t>(name.size() + extra.size()) + 4;
  const int64_t padding = round_up(unpadded, kAlignment) - unpadded;
  extra += "FB";
  put(extra, padding, 2);
  extra.append(static_cast<size_t>(padding), 'Z');

  std::string& header = member.header;
  header = "PK\x03\x04";
  put_common(header, member.crc, size, zip64);
  put(header, static_cast<int64_t>(name.size()), 2);
  put(header, static_cast<int64_t>(extra.size()), 2);
  header += name;
  header += extra;
  position_ += static_cast<int64_t>(header.size()) + size;
}

void ZipWriter::add(const std::string& name, std::string text) {
  add(name, std::as_bytes(std::span(text)));
  // The text still moves, and short strings are stored inside: pieces() takes the view.
  members_.back().text = std::move(text);
  members_.back().data = {};
}

std::vector<std::span<const std::byte>> ZipWriter::pieces() {
  HEARTH_CHECK(directory_.empty(), "pieces() was called twice");
  for (const Member& member : members_) {
    const size_t size = member.text.empty() ? member.data.size() : member.text.size();
    const bool zip64 = static_cast<int64_t>(size) >= kZipMax32 || member.offset >= kZipMax32;
    directory_ += "PK\x01\x02";
    put(directory_, zip64 ? 45 : 20, 2);  // version made by
    put_common(directory_, member.crc, static_cast<int64_t>(size), zip64);
    put(directory_, static_cast<int64_t>(member.name.size()), 2);
    put(directory_, zip64 ? 28 : 0, 2);  // extra
    put(directory_, 0, 2);               // comment
    put(directory_, 0, 2);               // disk
    put(directory_, 0, 2);               // internal attributes
    put(directory_, 0, 4);               // external attributes
    put(directory_, zip64 ? kZipMax32 : member.offset, 4);
    directory_ += member.name;
    if (zip64) {
      put(directory_, 1, 2);
      put(directory_, 24, 2);
      put(directory_, static_cast<int64_t>(size), 8);
      put(directory_, static_cast<int64_t>(size), 8);
      put(directory_, member.offset, 8);
    }
  }
  const int64_t count = static_cast<int64_t>(members_.size());
  const int64_t size = static_cast<int64_t>(directory_.size());
  const bool zip64 = count >= 0xffff || position_ >= kZipMax32 || size >= kZipMax32;
  if (zip64) {
    directory_ += "PK\x06\x06";
    put(directory_, 44, 8);  // size of the rest of this record
    put(directory_, 45, 2);
    put(directory_, 45, 2);
    put(directory_, 0, 4);
    put(directory_, 0, 4);
    put(directory_, count, 8);
    put(directory_, count, 8);
    put(directory_, size, 8);
    put(directory_, position_, 8);
    directory_ += "PK\x06\x07";
    put(directory_, 0, 4);
    put(directory_, position_ + size, 8);
    put(directory_, 1, 4);
  }
  directory_ += "PK\x05\x06";
  put(directory_, 0, 4);  // disks
  put(directory_, zip64 ? 0xffff : count, 2);
  put(directory_, zip64 ? 0xffff : count, 2);
  put(directory_, zip64 ? kZipMax32 : size, 4);
  put(directory_, zip64 ? kZipMax32 : position_, 4);
  put(directory_, 0, 2);  // comment

  std::vector<std::span<const std::byte>> all;
  for (const Member& member : members_) {
    all.push_back(std::as_bytes(std::span(member.header)));
    if (!member.text.empty()) all.push_back(std::as_bytes(std::span(member.text)));
    if (!member.data.empty()) all.push_back(member.data);
  }
  all.push_back(std::as_bytes(std::span(directory_)));
  return all;
}

}  // namespace hearth::formats
