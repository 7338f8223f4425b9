// SPDX-License-Identifier: Apache-2.0
#include "data/build/portions.h"

#include <gtest/gtest.h>

#include "data/corpus_folder.h"
#include "data/shard/sequence_hash.h"

namespace hearth::data {
namespace {

std::vector<SourceFile> files_of(std::initializer_list<int64_t> sizes) {
  std::vector<SourceFile> files;
  for (const int64_t size : sizes) files.emplace_back().size_bytes = size;
  return files;
}

TEST(Portions, SmallFilesShareAPortionAndALargeOneHasItsOwn) {
  const auto portions = plan_portions(files_of({30, 50, 40, 10, 500, 20, 100, 1}), 100);
  std::vector<std::vector<size_t>> sources;
  for (const Portion& portion : portions) {
    sources.emplace_back();
    for (const PortionPiece& piece : portion.pieces) sources.back().push_back(piece.source);
  }
  EXPECT_EQ(sources, (std::vector<std::vector<size_t>>{{0, 1, 2}, {3}, {4}, {5, 6}, {7}}));
  EXPECT_EQ(portions[0].size_bytes, 120);
}

TEST(Portions, PartsCoverEachPortionOnceAndAreAboutEqual) {
  std::vector<Portion> portions(100);
  int64_t total = 0;
  for (size_t i = 0; i < portions.size(); ++i) total += portions[i].size_bytes = static_cast<int64_t>(1 + i % 7);
  for (const int64_t count : {1, 2, 3, 8, 99, 250}) {
    size_t next = 0;
    for (int64_t part = 0; part < count; ++part) {
      const auto [first, end] = portions_of_part(portions, part, count);
      EXPECT_EQ(first, next);
      next = end;
      int64_t bytes = 0;
      for (size_t i = first; i < end; ++i) bytes += portions[i].size_bytes;
      EXPECT_LE(bytes, total / count + 8) << part << "/" << count;
    }
    EXPECT_EQ(next, portions.size());
  }
}

TEST(SequenceHash, JoiningPartsGivesTheHashOfTheWholeAndOrderMatters) {
  std::vector<Hash128> elements;
  for (int i = 0; i < 50; ++i) elements.push_back(xxh3_128(std::to_string(i)));
  const auto hash_of = [&](size_t begin, size_t end) {
    SequenceHash hash;
    for (size_t i = begin; i < end; ++i) hash.append(elements[i]);
    return hash;
  };
  const std::string whole = hash_of(0, 50).hex();
  for (size_t cut = 0; cut <= 50; ++cut) {
    SequenceHash joined = hash_of(0, cut);
    joined.append(SequenceHash::parse(hash_of(cut, 50).hex(), static_cast<int64_t>(50 - cut)));
    EXPECT_EQ(joined.hex(), whole) << cut;
    EXPECT_EQ(joined.count(), 50);
  }
  std::swap(elements[3], elements[30]);
  EXPECT_NE(hash_of(0, 50).hex(), whole);
  EXPECT_NE(hash_of(0, 49).hex(), hash_of(0, 50).hex());
}

}  // namespace
}  // namespace hearth::data
