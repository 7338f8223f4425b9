// SPDX-License-Identifier: Apache-2.0
#include "formats/zip.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "checkpoint/example.h"
#include "formats/item.h"

namespace hearth::formats {
namespace {

using testing::HasSubstr;

std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

void write_zip(const Path& path, ZipWriter& zip) {
  File file = File::create(path);
  for (const std::span<const std::byte> part : zip.pieces()) file.write(part);
  file.close();
}

TEST(Zip, IsReadByPythonAndItsDataIsAligned) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  std::string data((3 << 20) + 5, 'd');  // check_crc reads it in four parts
  data.back() = 'e';
  ZipWriter zip;
  zip.add("archive/data.pkl", "pickle");
  zip.add("archive/data/0", bytes_of(data));
  zip.add("archive/empty", "");
  zip.add("archive/version", "3\n");
  write_zip(scratch / "a.zip", zip);
  const std::string output = checkpoint::run_python(scratch, R"(
import struct, sys, zipfile
path = sys.argv[1]
z = zipfile.ZipFile(path)
assert z.testzip() is None
raw = open(path, 'rb').read()
for info in z.infolist():
    name, extra = struct.unpack('<HH', raw[info.header_offset + 26:info.header_offset + 30])
    start = info.header_offset + 30 + name + extra
    assert start % 64 == 0, info
    print(info.filename, start, info.file_size, info.CRC)
)",
                                                    (scratch / "a.zip").string());
  const File file = File::open_read(scratch / "a.zip");
  std::string ours;
  for (const ZipMember& member : read_zip_directory(file, 0, file.size_bytes(), "a.zip"))
    ours += fmt::format("{} {} {} {}\n", member.name, member.offset, member.length, member.crc);
  EXPECT_EQ(ours, output);
  check_crc(file, 0, file.size_bytes(), "a.zip");
}

TEST(Zip, MadeByPythonWith64BitFieldsIsRead) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  // force_zip64 adds the 64-bit extra field to the local header; the second file gets the 64-bit directory entry too.
  const std::string output = checkpoint::run_python(scratch, R"(
import sys, zipfile
zipfile.ZIP64_LIMIT = 10
zipfile.ZIP_FILECOUNT_LIMIT = 1
with zipfile.ZipFile(sys.argv[1], 'w') as z:
    for name in ('top/a', 'top/b'):
        with z.open(name, 'w', force_zip64=True) as f:
            f.write(name.encode() * 10)
assert b'PK\x06\x06' in open(sys.argv[1], 'rb').read()
)",
                                                    (scratch / "a.zip").string());
  const File file = File::open_read(scratch / "a.zip");
  const std::vector<ZipMember> members = read_zip_directory(file, 0, file.size_bytes(), "a.zip");
  ASSERT_EQ(members.size(), 2u);
  const ZipMember* b = find_member(members, "b");
  ASSERT_NE(b, nullptr);
  std::string text(static_cast<size_t>(b->length), '\0');
  file.read_at(b->offset, std::as_writable_bytes(std::span(text)));
  EXPECT_EQ(text.substr(0, 10), "top/btop/b");
  check_crc(file, 0, file.size_bytes(), "a.zip");
}

TEST(Zip, CompressedMembersAreRefused) {
  HEARTH_NEEDS_ORACLE();
  const test::ScratchFolder scratch;
  checkpoint::run_python(scratch, R"(
import sys, zipfile
with zipfile.ZipFile(sys.argv[1], 'w', zipfile.ZIP_DEFLATED) as z:
    z.writestr('top/a', 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa')
)",
                         (scratch / "a.zip").string());
  const File file = File::open_read(scratch / "a.zip");
  try {
    read_zip_directory(file, 0, file.size_bytes(), "a.zip");
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::kDamaged);
    EXPECT_THAT(e.why(), HasSubstr("top/a is compressed")) << e.what();
  }
}

TEST(Zip, ADamagedMemberFailsItsCrc) {
  const test::ScratchFolder scratch;
  ZipWriter zip;
  zip.add("archive/data/0", "some data");
  write_zip(scratch / "a.zip", zip);
  std::string bytes = read_file(scratch / "a.zip");
  bytes[bytes.find("some data")] = 'S';
  write_file_atomic(scratch / "a.zip", bytes);
  const File file = File::open_read(scratch / "a.zip");
  EXPECT_THROW(check_crc(file, 0, file.size_bytes(), "a.zip"), Error);
}

}  // namespace
}  // namespace hearth::formats
