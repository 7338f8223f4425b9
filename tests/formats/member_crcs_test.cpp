// SPDX-License-Identifier: Apache-2.0
// CRC-32s of members from parts in any order, compared with zlib's of the whole.
#include "formats/member_crcs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "support/environment.h"
#include "support/errors.h"

namespace hearth::formats {
namespace {

using testing::HasSubstr;

constexpr int64_t kBytes = 100'000;

// A file of noise; its two "members" are ranges of it.
class Fixture : public testing::Test {
 protected:
  Fixture() {
    const RandomKey key = random_key(3, "noise for members");
    bytes_.resize(kBytes);
    for (size_t i = 0; i < bytes_.size(); ++i) bytes_[i] = static_cast<std::byte>(random_u64(key, i));
    store();
  }
  void store() {
    File file = File::create(scratch_ / "file");
    file.write(bytes_);
    file.close();
    file_ = File::open_read(scratch_ / "file");
  }
  CrcRange range(int64_t offset, int64_t length) const {
    const auto* data = reinterpret_cast<const Bytef*>(bytes_.data() + offset);
    return {offset, length, static_cast<uint32_t>(::crc32_z(0, data, static_cast<size_t>(length)))};
  }
  void add(const CrcRange& member, int64_t at, int64_t count) {
    crcs_.add("file", member, at, std::span(bytes_).subspan(static_cast<size_t>(at), static_cast<size_t>(count)));
  }
  void check(bool read_rest) {
    crcs_.check([&](const std::string&) -> const File& { return *file_; }, read_rest);
  }
  test::ScratchFolder scratch_;
  std::vector<std::byte> bytes_;
  std::optional<File> file_;
  MemberCrcs crcs_;
};

using MemberCrcsTest = Fixture;

TEST_F(MemberCrcsTest, PartsInAnyOrderGiveTheCrcOfTheWhole) {
  const RandomKey key = random_key(5, "parts");
  const CrcRange first = range(100, 40'000), second = range(50'000, 33'333);
  CrcRange wrong = second;
  wrong.crc ^= 1;
  for (uint64_t round = 0; round < 200; ++round) {
    const bool is_right = round % 2 == 0;
    // Reads also begin before and end behind the members, and meet each other.
    for (uint64_t i = 0; i < 60; ++i) {
      const auto at = static_cast<int64_t>(random_u64(key, 1000 * round + 2 * i) % kBytes);
      const auto most = static_cast<uint64_t>(std::min<int64_t>(kBytes - at, 9'000));
      const auto count = static_cast<int64_t>(random_u64(key, 1000 * round + 2 * i + 1) % (most + 1));
      add(first, at, count);
      add(is_right ? second : wrong, at, count);
    }
    if (is_right)
      check(/*read_rest=*/true);
    else
      EXPECT_THAT(test::error_of([&] { check(/*read_rest=*/true); }).what(),
                  testing::AllOf(HasSubstr("file is damaged, in bytes 50000 to 83333"),
                                 HasSubstr(fmt::format("CRC-32 {:08x}, expected {:08x}", second.crc, wrong.crc))));
    crcs_ = {};
  }
}

TEST_F(MemberCrcsTest, WhatWasNotReadIsReadOrLeftOut) {
  const CrcRange member = range(0, kBytes);
  add(member, 500, 1000);
  bytes_[99'999] ^= std::byte{1};
  store();
  check(/*read_rest=*/false);  // it was not read whole
  add(member, 500, 1000);
  EXPECT_EQ(test::error_of([&] { check(/*read_rest=*/true); }).code(), ExitCode::kDamaged);
  crcs_ = {};
  add(member, 0, kBytes);
  EXPECT_EQ(test::error_of([&] { check(/*read_rest=*/false); }).code(), ExitCode::kDamaged);
}

}  // namespace
}  // namespace hearth::formats
