// SPDX-License-Identifier: Apache-2.0
// Zip archives without compression, as torch.save writes them. Source of the format: PKWARE APPNOTE 6.3.10.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"

namespace hearth::formats {

inline constexpr int64_t kZipLocalHeader = 30;    // bytes before a member's name
inline constexpr int64_t kZipMax32 = 0xffffffff;  // stands for a number that only the zip64 fields can hold

// A member as the directory lists it.
struct ZipEntry {
  std::string name;
  int64_t size = 0;
  uint32_t crc = 0;
  int64_t offset = 0;  // of its local header
};

// Builds an archive that torch.load reads. Each member's data starts at a multiple of 64 bytes from the archive's
// start, as in torch.save. Nothing is copied: the archive is a list of spans, which include the members' own bytes.
class ZipWriter {
 public:
  // `data` is borrowed until the pieces have been used. Never throws; names must differ.
  void add(const std::string& name, std::span<const std::byte> data);
  void add(const std::string& name, std::string text);
  // The archive, in order. The spans live as long as this object. Call once, after the last add().
  std::vector<std::span<const std::byte>> pieces();

 private:
  struct Member {
    ZipEntry entry;
    std::string header;  // local header with padding
    std::string text;    // owned data, if it is owned
    std::span<const std::byte> data;
  };
  std::vector<Member> members_;
  std::string directory_;
  int64_t position_ = 0;
};

// Writes the same archive to a file while its data come. begin() needs each member's size; the CRC-32 is put into the
// header afterwards. Objects of a store cannot be changed, so the archive is first a file in TMPDIR, which needs room
// there. finish() uploads it and reads it back.
class ZipFileWriter {
 public:
  explicit ZipFileWriter(const Path& path);
  ~ZipFileWriter();
  ZipFileWriter(const ZipFileWriter&) = delete;
  ZipFileWriter& operator=(const ZipFileWriter&) = delete;
  void begin(const std::string& name, int64_t size);
  void write(std::span<const std::byte> bytes);  // of the member that began last
  void add(const std::string& name, std::string_view text);
  void finish();  // writes the directory and fsyncs

 private:
  void end_member();
  const Path path_, written_;  // they differ in a store
  File file_;
  std::vector<ZipEntry> entries_;
  int64_t position_ = 0, missing_ = 0;
};

struct ZipMember {
  std::string name;
  int64_t offset = 0, length = 0;  // of the data, in the file
  uint32_t crc = 0;                // 0 if the program that wrote it computed none
  // torch.serialization.set_crc32_options(False) writes 0 for all members. A real CRC-32 is hardly ever 0.
  bool has_crc() const { return crc != 0; }
};

// Reads the directory of the archive in bytes [offset, offset + length) of `file`: stored, unencrypted members only. No
// length or offset in it is trusted. Throws damaged() naming `origin`.
std::vector<ZipMember> read_zip_directory(const File& file, int64_t offset, int64_t length, const std::string& origin);

// The CRC-32 of the member's bytes, which are read in pieces.
uint32_t crc_of(const File& file, const ZipMember& member);

// The member whose name ends in "/NAME" below the archive's one top folder; null if it is missing.
const ZipMember* find_member(const std::vector<ZipMember>& members, std::string_view name);

}  // namespace hearth::formats
