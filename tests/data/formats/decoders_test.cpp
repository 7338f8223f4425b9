// SPDX-License-Identifier: Apache-2.0
// Windows of zstd, and streams of xz. What the decoders read: tests/data/source/jsonl_test.cpp (gzip, zstd),
// foreign_kind_test.cpp (xz, bzip2).
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <lzma.h>
#include <zlib.h>

#include "data/corpus_folder.h"
#include "data/read_source.h"

namespace hearth::data {
namespace {

using testing::HasSubstr;

using test::ScratchFolder;

// A frame of zstd with one raw block, and a window of 2 to the power of `log` bytes (RFC 8878, sections 3.1.1
// and 3.1.1.2).
std::string frame_of_window(int log, const std::string& text) {
  constexpr int kLeastLog = 10;
  const auto block = static_cast<unsigned>(text.size()) << 3 | 1;  // raw, and the last one
  std::string frame = "\x28\xb5\x2f\xfd";
  frame += '\0';  // no size, no checksum
  frame += static_cast<char>((log - kLeastLog) << 3);
  for (int i = 0; i < 3; ++i) frame += static_cast<char>(block >> (8 * i) & 0xff);
  return frame + text;
}

TEST(Decoders, AZstdWindowOf2GiBIsReadAndALargerOneIsNamed) {
  const ScratchFolder scratch;
  const std::string line = "{\"text\": \"the sea\"}\n";
  for (const int log : {10, 27, 28, 31}) {
    write_text(scratch / "x.jsonl.zst", frame_of_window(log, line));
    EXPECT_EQ(texts_of(read_source(found_file(scratch / "x.jsonl.zst"))), std::vector<std::string>{"the sea"}) << log;
  }
  write_text(scratch / "x.jsonl.zst", frame_of_window(32, line));
  const auto records = read_source(found_file(scratch / "x.jsonl.zst"));
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].problem, RecordProblem::kUnreadable);
  EXPECT_THAT(records[0].why, HasSubstr("a frame asks for a window of more than 2 GiB"));
}

std::string xz_of(const std::string& text) {
  std::string packed(1000, '\0');
  size_t end = 0;
  EXPECT_EQ(::lzma_easy_buffer_encode(0, LZMA_CHECK_CRC32, nullptr, reinterpret_cast<const uint8_t*>(text.data()),
                                      text.size(), reinterpret_cast<uint8_t*>(packed.data()), &end, packed.size()),
            LZMA_OK);
  packed.resize(end);
  return packed;
}

// The text by xz, with another size of the dictionary in its block's header ("The .xz File Format", 3.1 and 5.3.1). The
// header's first byte is its size; its last four are a CRC-32.
std::string xz_of_dictionary(const std::string& text, char size) {
  std::string packed = xz_of(text);
  constexpr size_t kHeader = 12;  // after that of the stream
  const size_t header_size = (static_cast<unsigned char>(packed[kHeader]) + size_t{1}) * 4;
  const size_t filter = packed.find("\x21\x01", kHeader + 2);  // LZMA2, with one byte: the dictionary's size
  EXPECT_LT(filter + 2, kHeader + header_size - 4);
  packed[filter + 2] = size;
  const auto* header = reinterpret_cast<const Bytef*>(packed.data() + kHeader);
  const uLong sum = ::crc32(0, header, static_cast<uInt>(header_size - 4));
  for (size_t i = 0; i < 4; ++i) packed[kHeader + header_size - 4 + i] = static_cast<char>(sum >> (8 * i) & 0xff);
  return packed;
}

TEST(Decoders, AnXzDictionaryOfMoreThan2GiBIsNamedAndNotSkipped) {
  const ScratchFolder scratch;
  const std::string line = "{\"text\": \"the sea\"}\n";
  constexpr char kGiB = 36, kThreeGiB = 39;
  write_text(scratch / "x.jsonl.xz", xz_of_dictionary(line, kGiB));
  EXPECT_EQ(texts_of(read_source(found_file(scratch / "x.jsonl.xz"))), std::vector<std::string>{"the sea"});
  write_text(scratch / "x.jsonl.xz", xz_of_dictionary(line, kThreeGiB));
  const Error e = test::error_of([&] { found_file(scratch / "x.jsonl.xz"); });
  EXPECT_EQ(e.code(), ExitCode::kUser);
  EXPECT_THAT(e.message(), HasSubstr("x.jsonl.xz needs 32"));  // 3,221,... bytes
  EXPECT_EQ(e.why(), "its xz dictionary is larger than 2 GiB");
}

TEST(Decoders, BytesBehindAnXzStreamAreNoStreamThatIsCutShort) {
  const ScratchFolder scratch;
  const Path path = scratch / "x.txt.xz";
  const std::string a = xz_of("the sea, "), b = xz_of("the land");
  const auto records = [&](const std::string& content) {
    write_text(path, content);
    return read_source(found_file(path));
  };
  EXPECT_EQ(texts_of(records(a + std::string(8, '\0') + b + std::string(4, '\0'))),
            std::vector<std::string>{"the sea, the land"});
  for (const char* rest : {"x", "garbage", "more than the twelve bytes of a header"})
    EXPECT_THAT(records(a + b + rest).at(0).why, HasSubstr("bytes that are no xz stream follow a stream")) << rest;
  for (const size_t size : {size_t{3}, b.size() / 2, b.size() - 1})
    EXPECT_THAT(records(a + b.substr(0, size)).at(0).why, HasSubstr("its last xz stream has no end")) << size;
}

TEST(Decoders, ACompressionIsFoundFromItsMarkAndAnEndingIsNoPartOfAName) {
  EXPECT_EQ(compression_of("BZh9 is how a file of bzip2 begins"), Compression::kNone);
  EXPECT_EQ(compression_of("BZh91AY&SY"), Compression::kBzip2);
  EXPECT_EQ(compression_of("\xfd\x37zXZ"), Compression::kNone);
  for (const char* name : {"none", "gzip", "zstd", "xz", "bzip2"})
    EXPECT_EQ(compression_name(parse_compression(name)), name);
  for (const char* name : {"x.jsonl", "x.jsonl.gz", "x.jsonl.zst", "x.jsonl.zstd", "x.jsonl.xz", "x.jsonl.bz2",
                           "X.JSONL", "X.JsonL.GZ", "X.JSONL.Zst", "x.jsonl.ZSTD", "X.JSONL.XZ", "x.JSONL.BZ2"})
    EXPECT_EQ(plain_name(Path("folder") / name), "x.jsonl");
}

TEST(Decoders, AZstdFileThatNeedsADictionaryIsRefusedAndNotCalledDamaged) {
  const ScratchFolder scratch;
  // The frame's header asks for dictionary 7 (RFC 8878, section 3.1.1.1.3).
  const std::string frame("\x28\xb5\x2f\xfd\x21\x07\x01\x09\x00\x00x", 11);
  write_text(scratch / "a.jsonl.zst", frame);
  const Error e = error_of([&] { recognise(scratch / "a.jsonl.zst", {}); });
  EXPECT_EQ(e.code(), ExitCode::kUser);
  EXPECT_EQ(e.message(), (scratch / "a.jsonl.zst").string() + " needs a dictionary of zstd");
  EXPECT_THAT(e.fix(), HasSubstr("unpack it first: zstd -D DICTIONARY --decompress "));
}

}  // namespace
}  // namespace hearth::data
