// SPDX-License-Identifier: Apache-2.0
// A file that is read back while it is written: every byte is compared as the disk has it, after an fsync.
#include "checkpoint/read_back.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "base/hash.h"
#include "checkpoint/save.h"
#include "support/durable.h"
#include "support/environment.h"
#include "support/errors.h"
#include "support/failpoint.h"

namespace hearth::checkpoint {
namespace {

using testing::HasSubstr;

constexpr int64_t kPortion = 64 << 10;

std::vector<std::byte> counted(size_t size, size_t from) {
  std::vector<std::byte> bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>((i + from) * 2654435761U >> 13);
  return bytes;
}

struct ReadBackTest : testing::Test {
  // Writes items of these sizes in parts of `part` bytes. Returns their checksums, as written.
  std::vector<uint64_t> write(ReadBack& back, const std::vector<size_t>& sizes, size_t part) {
    std::vector<uint64_t> checksums;
    int64_t end = 0;
    for (size_t i = 0; i < sizes.size(); ++i) {
      const std::vector<std::byte> bytes = counted(sizes[i], 31 * i);
      checksums.push_back(xxh3_64(bytes));
      back.begin_item(static_cast<int64_t>(bytes.size()));
      for (size_t at = 0; at < bytes.size(); at += part) {
        const std::span<const std::byte> now = std::span(bytes).subspan(at, std::min(part, bytes.size() - at));
        file.write(now);
        end += static_cast<int64_t>(now.size());
        back.written(end);
      }
    }
    return checksums;
  }

  test::ScratchFolder scratch;
  File file = File::create(scratch / "file");
};

TEST_F(ReadBackTest, GivesTheChecksumOfEveryItem) {
  const std::vector<std::vector<size_t>> files = {
      {1}, {10}, {kPortion}, {kPortion - 1, 2}, {kPortion + 1}, {5, 3 * kPortion, 7, 1, kPortion}, {1'000'000, 3}};
  for (const std::vector<size_t>& sizes : files) {
    for (const size_t part : {size_t{977}, size_t{1} << 20}) {
      file = File::create(scratch / "file");
      ReadBack back(file, kPortion);
      const std::vector<uint64_t> expected = write(back, sizes, part);
      EXPECT_EQ(back.finish(), expected) << sizes.size() << " items in parts of " << part;
    }
  }
}

// Another hand changes the file in front of and behind what the thread has read.
TEST_F(ReadBackTest, SeesWhatTheFileHasAndNotWhatWasWritten) {
  for (const int64_t place : {int64_t{10}, 5 * kPortion + 100}) {
    file = File::create(scratch / "file");
    ReadBack back(file, int64_t{64} << 20);  // nothing is read before the end
    const std::vector<uint64_t> written = write(back, {4 * kPortion, 2 * kPortion}, kPortion);
    const int fd = ::open((scratch / "file").c_str(), O_WRONLY);
    ASSERT_EQ(::pwrite(fd, "!", 1, place), 1);
    ::close(fd);
    const std::vector<uint64_t> found = back.finish();
    ASSERT_EQ(found.size(), 2U);
    EXPECT_EQ(found[0] == written[0], place > 4 * kPortion);
    EXPECT_EQ(found[1] == written[1], place < 4 * kPortion);
  }
}

// The error of an fsync in the thread comes out of written() or finish().
TEST_F(ReadBackTest, AnErrorOfTheThreadIsThrown) {
  for (int64_t nth = 1;; ++nth) {
    file = File::create(scratch / "file");
    bool thrown = false;
    failpoint::arm(nth, EIO);
    {
      ReadBack back(file, kPortion);
      try {
        write(back, std::vector<size_t>(20, kPortion), kPortion);
        back.finish();
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ExitCode::kHardware);
        thrown = true;
      }
    }
    const bool reached = failpoint::calls() >= nth;
    failpoint::disarm();
    EXPECT_EQ(thrown, reached) << nth;
    if (!reached) break;
    ASSERT_LT(nth, 60);
  }
}

// Nothing is lost by a power cut after finish(): the last call is an fsync, after all writes.
TEST_F(ReadBackTest, SyncsAfterTheLastWrite) {
  ReadBack back(file, kPortion);
  const std::vector<failpoint::Call> calls = test::disk_calls([&] {
    write(back, std::vector<size_t>(10, kPortion + 1), 4096);
    back.finish();
  });
  ASSERT_FALSE(calls.empty());
  EXPECT_EQ(calls.back().what, "fsync");
  EXPECT_GT(std::count_if(calls.begin(), calls.end(), [](const auto& call) { return call.what == "write"; }), 100);
}

// A file of several portions through the whole of it, with a bit that turns on the disk.
TEST_F(ReadBackTest, ARankFileOfManyPortionsIsComparedToItsLastByte) {
  const std::vector<std::byte> bytes = counted(size_t{80} << 20, 0);
  const int64_t rows = static_cast<int64_t>(bytes.size()) / 4;
  const mesh::TensorPiece piece{{"w", DType::kFloat32, {rows}}, {{0}, {rows}}, bytes};
  for (const bool turned : {false, true}) {
    RankFile rank_file(scratch.path(), 3);
    rank_file.add(piece);
    if (turned) {
      const int fd = ::open((scratch / "__R_3.distcp").c_str(), O_WRONLY);
      ASSERT_EQ(::pwrite(fd, "!", 1, int64_t{79} << 20), 1);
      ::close(fd);
      const Error error = test::error_of([&] { rank_file.finish(); });
      EXPECT_EQ(error.code(), ExitCode::kHardware);
      EXPECT_THAT(error.what(), HasSubstr("w was written to"));
    } else {
      EXPECT_FALSE(rank_file.finish().empty());
    }
  }
}

}  // namespace
}  // namespace hearth::checkpoint
