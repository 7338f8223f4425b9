// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <atomic>
#include <initializer_list>
#include <iterator>

#include <fmt/format.h>

#include "base/copy_tree.h"
#include "base/disk_space.h"
#include "base/error.h"
#include "base/quantity.h"
#include "formats/crc32.h"
#include "formats/zip.h"

namespace hearth::formats {
namespace {

constexpr int64_t kAlignment = 64;
constexpr int64_t kZipCrcField = 14;  // of a local header

struct Number {
  int64_t value;
  int width;  // bytes
};

void put(std::string& out, std::initializer_list<Number> numbers) {
  for (const auto& [value, width] : numbers) {
    for (int i = 0; i < width; ++i) out.push_back(static_cast<char>(value >> (8 * i) & 0xff));
  }
}

// The common fields of local header and directory entry, from "version needed" to the sizes. The date is always
// 1980-01-01 00:00: the same tensors give the same bytes.
void put_common(std::string& out, uint32_t crc, int64_t size, bool zip64) {
  const int64_t version = zip64 ? 45 : 20, shown = zip64 ? kZipMax32 : size;
  put(out, {{version, 2}, {0, 2}, {0, 2}});      // needed version, flags, stored
  put(out, {{0, 2}, {0x21, 2}});                 // time, date
  put(out, {{crc, 4}, {shown, 4}, {shown, 4}});  // compressed and uncompressed size
}

// Extra fields: the 64-bit sizes (id 1) if needed, then padding with torch.save's id "FB" up to the alignment.
std::string local_header(const ZipEntry& entry) {
  const bool zip64 = entry.size >= kZipMax32;
  std::string extra;
  if (zip64) put(extra, {{1, 2}, {16, 2}, {entry.size, 8}, {entry.size, 8}});
  const int64_t unpadded = entry.offset + kZipLocalHeader + static_cast<int64_t>(entry.name.size() + extra.size()) + 4;
  const int64_t padding = round_up(unpadded, kAlignment) - unpadded;
  extra += "FB";
  put(extra, {{padding, 2}});
  extra.append(static_cast<size_t>(padding), 'Z');

  std::string header = "PK\x03\x04";
  put_common(header, entry.crc, entry.size, zip64);
  put(header, {{std::ssize(entry.name), 2}, {std::ssize(extra), 2}});
  return header + entry.name + extra;
}

void put_entry(std::string& directory, const ZipEntry& entry) {
  const bool zip64 = entry.size >= kZipMax32 || entry.offset >= kZipMax32;
  directory += "PK\x01\x02";
  put(directory, {{zip64 ? 45 : 20, 2}});  // version made by
  put_common(directory, entry.crc, entry.size, zip64);
  put(directory, {{std::ssize(entry.name), 2}, {zip64 ? 28 : 0, 2}});  // lengths of name and extra
  put(directory, {{0, 2}, {0, 2}, {0, 2}, {0, 4}});  // comment, disk, internal and external attributes
  put(directory, {{zip64 ? kZipMax32 : entry.offset, 4}});
  directory += entry.name;
  if (zip64) put(directory, {{1, 2}, {24, 2}, {entry.size, 8}, {entry.size, 8}, {entry.offset, 8}});
}

// The records after the directory, which has `size` bytes from `position` on.
void put_end(std::string& directory, int64_t count, int64_t position) {
  const auto size = static_cast<int64_t>(directory.size());
  const bool zip64 = count >= 0xffff || position >= kZipMax32 || size >= kZipMax32;
  if (zip64) {
    directory += "PK\x06\x06";
    put(directory, {{44, 8}, {45, 2}, {45, 2}, {0, 4}, {0, 4}});  // size of the rest of it, versions, disks
    put(directory, {{count, 8}, {count, 8}, {size, 8}, {position, 8}});
    directory += "PK\x06\x07";
    put(directory, {{0, 4}, {position + size, 8}, {1, 4}});  // disk, place of the record before, number of disks
  }
  const int64_t shown = zip64 ? 0xffff : count;
  directory += "PK\x05\x06";
  put(directory, {{0, 4}, {shown, 2}, {shown, 2}});                                            // disks, members
  put(directory, {{zip64 ? kZipMax32 : size, 4}, {zip64 ? kZipMax32 : position, 4}, {0, 2}});  // the last: comment
}

// A file of TMPDIR that no other writer has.
Path draft_path() {
  static std::atomic<int64_t> number = 0;
  return temporary_directory() / fmt::format("hearth-zip-{}-{}", ::getpid(), number++);
}

}  // namespace

void ZipWriter::add(const std::string& name, std::span<const std::byte> data) {
  Member& member = members_.emplace_back();
  member.entry = {name, static_cast<int64_t>(data.size()), crc32(0, data), position_};
  member.data = data;
  member.header = local_header(member.entry);
  position_ += static_cast<int64_t>(member.header.size()) + member.entry.size;
}

void ZipWriter::add(const std::string& name, std::string text) {
  add(name, std::as_bytes(std::span(text)));
  // The text still moves, and short strings are stored inside: pieces() takes the view.
  members_.back().text = std::move(text);
  members_.back().data = {};
}

std::vector<std::span<const std::byte>> ZipWriter::pieces() {
  HEARTH_CHECK(directory_.empty(), "pieces() was called twice");
  for (const Member& member : members_) put_entry(directory_, member.entry);
  put_end(directory_, static_cast<int64_t>(members_.size()), position_);
  std::vector<std::span<const std::byte>> all;
  for (const Member& member : members_) {
    all.push_back(std::as_bytes(std::span(member.header)));
    if (!member.text.empty()) all.push_back(std::as_bytes(std::span(member.text)));
    if (!member.data.empty()) all.push_back(member.data);
  }
  all.push_back(std::as_bytes(std::span(directory_)));
  return all;
}

ZipFileWriter::ZipFileWriter(const Path& path)
    : path_(path), written_(is_object(path) ? draft_path() : path), file_(File::create(written_)) {}

ZipFileWriter::~ZipFileWriter() {
  std::error_code ignored;
  if (written_ != path_) std::filesystem::remove(written_, ignored);
}

void ZipFileWriter::begin(const std::string& name, int64_t size) {
  end_member();
  entries_.push_back({name, size, 0, position_});
  const std::string header = local_header(entries_.back());
  file_.write(header);
  position_ += static_cast<int64_t>(header.size()) + size;
  missing_ = size;
}

void ZipFileWriter::write(std::span<const std::byte> bytes) {
  missing_ -= static_cast<int64_t>(bytes.size());
  HEARTH_CHECK(missing_ >= 0, "{}: more bytes than were announced", entries_.back().name);
  entries_.back().crc = crc32(entries_.back().crc, bytes);
  file_.write(bytes);
}

void ZipFileWriter::add(const std::string& name, std::string_view text) {
  begin(name, static_cast<int64_t>(text.size()));
  write(std::as_bytes(std::span(text)));
}

void ZipFileWriter::end_member() {
  if (entries_.empty()) return;
  HEARTH_CHECK(missing_ == 0, "{}: {} bytes are missing", entries_.back().name, missing_);
  std::string crc;
  put(crc, {{entries_.back().crc, 4}});
  file_.write_at(entries_.back().offset + kZipCrcField, std::as_bytes(std::span(crc)));
}

void ZipFileWriter::finish() {
  end_member();
  std::string directory;
  for (const ZipEntry& entry : entries_) put_entry(directory, entry);
  put_end(directory, static_cast<int64_t>(entries_.size()), position_);
  file_.write(directory);
  if (written_ == path_) file_.sync();
  file_.close();
  if (written_ == path_) return;
  CopyProgress progress;
  copy_checked(written_, path_, progress);
}

}  // namespace hearth::formats
