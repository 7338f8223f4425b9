// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "base/error.h"
#include "base/hash.h"
#include "data/corpus_folder.h"
#include "data/shard/shard_reader.h"
#include "data/shard/shard_writer.h"
#include "data/study/verify.h"

namespace hearth::data {
namespace {

using testing::HasSubstr;

using test::ScratchFolder;

constexpr std::string_view kIdentity = "00112233445566778899aabbccddeeff";

// 300 tokens, 3 documents that are 2-D arrays, with their shape and a name of four bytes.
void write_example(const Path& path, uint64_t block_bytes = 256) {
  ShardWriter writer(path, kIdentity, block_bytes);
  std::vector<uint16_t> tokens;
  for (int i = 0; i < 300; ++i) tokens.push_back(static_cast<uint16_t>(i * 7));
  writer.begin_column("tokens", ElementType::kU16, ColumnAxis::kToken);
  writer.append(std::vector<uint16_t>(tokens.begin(), tokens.begin() + 100));
  writer.append(std::vector<uint16_t>(tokens.begin() + 100, tokens.end()));
  writer.begin_column("weights", ElementType::kF32, ColumnAxis::kToken);
  writer.append(std::vector<float>(300, 0.5F));
  writer.begin_column("document_ends", ElementType::kU64, ColumnAxis::kDocument);
  writer.append(std::vector<uint64_t>{100, 150, 300});
  writer.begin_column("shape", ElementType::kU32, ColumnAxis::kDocument, {2});
  writer.append(std::vector<uint32_t>{10, 10, 5, 10, 15, 10});
  writer.finish();
}

TEST(Shard, ColumnsComeBackWithTypesShapesAndValues) {
  const ScratchFolder scratch;
  write_example(scratch / "a.shard");
  const ShardReader shard(scratch / "a.shard");
  EXPECT_EQ(shard.header().num_tokens, 300u);
  EXPECT_EQ(shard.header().num_documents, 3u);
  ASSERT_EQ(shard.columns().size(), 4u);
  const Column* shape = shard.find_column("shape");
  ASSERT_NE(shape, nullptr);
  EXPECT_EQ(shape->row_shape, std::vector<uint64_t>{2});
  EXPECT_EQ(shape->num_rows, 3u);
  const auto bytes = shard.column_bytes(*shape);
  uint32_t last;
  std::memcpy(&last, bytes.data() + 16, sizeof last);
  EXPECT_EQ(last, 15u);
  EXPECT_EQ(shard.find_column("labels"), nullptr);
  EXPECT_TRUE(shard.find_damage().empty());
  EXPECT_FALSE(path_exists(scratch / "a.shard.tmp"));
}

TEST(Shard, TheTokenColumnIsAsNarrowAsTheVocabularyAllows) {
  EXPECT_EQ(token_type(256), ElementType::kU8);
  EXPECT_EQ(token_type(258), ElementType::kU16);
  EXPECT_EQ(token_type(65536), ElementType::kU16);
  EXPECT_EQ(token_type(65537), ElementType::kU32);
}

// All changes of a byte must be found: opening throws, or find_damage names the block.
std::string what_is_found(const Path& path) {
  try {
    const auto damage = ShardReader(path).find_damage();
    return damage.empty() ? "" : damage[0];
  } catch (const Error& e) {
    return fmt::format("{}: {} {}", static_cast<int>(e.code()), e.message(), e.why());
  }
}

TEST(Shard, OneFlippedByteAnywhereIsFoundAndItsBlockNamed) {
  const ScratchFolder scratch;
  write_example(scratch / "a.shard");
  const std::string good = read_file(scratch / "a.shard");
  const ShardReader shard(scratch / "a.shard");
  const ShardHeader header = shard.header();
  File file = File::create(scratch / "b.shard");
  file.write(good);
  for (size_t i = 0; i < good.size(); ++i) {
    const char flipped = static_cast<char>(good[i] ^ (1 << i % 8));
    file.write_at(static_cast<int64_t>(i), std::as_bytes(std::span(&flipped, 1)));
    const std::string found = what_is_found(scratch / "b.shard");
    file.write_at(static_cast<int64_t>(i), std::as_bytes(std::span(&good[i], 1)));
    ASSERT_NE(found, "") << "byte " << i;
    if (i >= header.header_bytes && i < header.columns_offset) {
      const std::string block = fmt::format("block {} (bytes ", (i - header.header_bytes) / header.block_bytes);
      ASSERT_TRUE(found.starts_with(block)) << "byte " << i << ": " << found;
      for (const Column& column : shard.columns()) {
        if (i >= column.data_offset && i < column.data_offset + column.data_bytes) {
          ASSERT_THAT(found, HasSubstr(column.name)) << found;
        }
      }
    }
  }
}

TEST(Shard, AShardCutShortAnywhereIsFound) {
  const ScratchFolder scratch;
  write_example(scratch / "a.shard");
  const std::string good = read_file(scratch / "a.shard");
  for (size_t size = 0; size < good.size(); size += 13) {
    write_text(scratch / "b.shard", good.substr(0, size));
    ASSERT_NE(what_is_found(scratch / "b.shard"), "") << size;
  }
  write_text(scratch / "b.shard", good + "x");
  EXPECT_THAT(what_is_found(scratch / "b.shard"), HasSubstr("instead of"));
}

// Checksums protect against accidents. A made-up file with good checksums must not lead outside the mapping, either.
TEST(Shard, TablesThatPointOutsideAreRefused) {
  const ScratchFolder scratch;
  write_example(scratch / "a.shard");
  const std::string good = read_file(scratch / "a.shard");
  const auto with = [&](auto change) {
    std::string bad = good;
    ShardHeader header;
    std::memcpy(&header, bad.data(), sizeof header);
    ColumnEntry column;
    std::memcpy(&column, bad.data() + header.columns_offset, sizeof column);
    const uint64_t columns_offset = header.columns_offset;
    change(header, column);
    std::memcpy(bad.data() + columns_offset, &column, sizeof column);
    if (header.columns_offset <= bad.size())
      header.tables_checksum = xxh3_64(std::string_view(bad).substr(header.columns_offset));
    header.header_checksum = xxh3_64(std::as_bytes(std::span(&header, 1)).first(120));
    std::memcpy(bad.data(), &header, sizeof header);
    write_text(scratch / "b.shard", bad);
    return what_is_found(scratch / "b.shard");
  };
  constexpr uint64_t kHuge = ~uint64_t{0} - 63;
  EXPECT_EQ(with([](ShardHeader&, ColumnEntry&) {}), "");
  const auto expect_damaged = [](const std::string& found) { EXPECT_TRUE(found.starts_with("3: ")) << found; };
  expect_damaged(with([](ShardHeader& h, ColumnEntry&) { h.num_columns = 0xFFFFFFFF; }));
  expect_damaged(with([](ShardHeader& h, ColumnEntry&) { h.num_blocks = kHuge; }));
  expect_damaged(with([](ShardHeader& h, ColumnEntry&) { h.columns_offset = kHuge; }));
  expect_damaged(with([](ShardHeader& h, ColumnEntry&) { h.checksums_offset = kHuge; }));
  expect_damaged(with([](ShardHeader& h, ColumnEntry&) { h.block_bytes = 0; }));
  expect_damaged(with([](ShardHeader& h, ColumnEntry&) { h.num_tokens = kHuge; }));
  expect_damaged(with([](ShardHeader&, ColumnEntry& c) { c.data_offset = kHuge; }));
  expect_damaged(with([](ShardHeader&, ColumnEntry& c) { c.data_bytes = kHuge; }));
  expect_damaged(with([](ShardHeader&, ColumnEntry& c) { c.num_rows = kHuge; }));
  expect_damaged(with([](ShardHeader&, ColumnEntry& c) { c.element_type = 77; }));
  expect_damaged(with([](ShardHeader&, ColumnEntry& c) { c.axis = 3; }));
  expect_damaged(with([](ShardHeader&, ColumnEntry& c) { c.row_rank = 1; }));  // with an extent of 0
}

TEST(Shard, AnotherVersionOrKindOfFileIsAUserError) {
  const ScratchFolder scratch;
  write_example(scratch / "a.shard");
  std::string bytes = read_file(scratch / "a.shard");
  bytes[8] = 9;
  write_text(scratch / "new.shard", bytes);
  EXPECT_EQ(
      what_is_found(scratch / "new.shard"),
      fmt::format("2: shard {} has version 9 this hearth reads versions 1 and 2", (scratch / "new.shard").string()));
  write_text(scratch / "text.shard", "once upon a time");
  EXPECT_TRUE(what_is_found(scratch / "text.shard").starts_with("2: "));
}

TEST(Shard, CheckRangeReadsOnlyTheBlocksItIsAskedFor) {
  const ScratchFolder scratch;
  write_example(scratch / "a.shard");
  std::string bytes = read_file(scratch / "a.shard");
  bytes[128 + 300] = static_cast<char>(bytes[128 + 300] ^ 1);  // block 1: bytes 256 to 511 of the data
  write_text(scratch / "a.shard", bytes);
  const ShardReader shard(scratch / "a.shard");
  const Column& tokens = *shard.find_column("tokens");
  const auto is_good = [&](uint64_t begin, uint64_t end) {
    try {
      shard.check_range(tokens, begin, end);
    } catch (const Error&) {
      return false;
    }
    return true;
  };
  // Byte ranges, with blocks of 256: exactly the ranges with a byte of block 1.
  for (const auto& [begin, end, good] : {std::tuple{0, 1, true},
                                         {0, 256, true},
                                         {512, 600, true},
                                         {599, 600, true},
                                         {0, 257, false},
                                         {255, 257, false},
                                         {256, 257, false},
                                         {300, 301, false},
                                         {511, 512, false},
                                         {511, 600, false},
                                         {0, 600, false}}) {
    EXPECT_EQ(is_good(static_cast<uint64_t>(begin), static_cast<uint64_t>(end)), good) << begin << " to " << end;
  }
  const Error error = error_of([&] { shard.check_range(tokens, 255, 257); });
  EXPECT_EQ(error.code(), ExitCode::kDamaged);
  EXPECT_EQ(error.message(), fmt::format("shard {} is damaged", (scratch / "a.shard").string()));
  EXPECT_EQ(error.why(), "block 1 (bytes 384 to 640, column tokens) has a wrong checksum");
}

}  // namespace
}  // namespace hearth::data
