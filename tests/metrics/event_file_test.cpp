// SPDX-License-Identifier: Apache-2.0
// Files of TensorBoard's events, byte for byte.
#include "metrics/event_file.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "support/environment.h"

namespace hearth::metrics {
namespace {

std::string hex(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return text;
}

Path only_file(const Path& folder) {
  const std::vector<std::string> names = list_folder(folder);
  EXPECT_EQ(names.size(), 1u);
  return folder / names.at(0);
}

// The check value of CRC-32C in Koopman's and Cook's catalogues, and RFC 3720's B.4: 32 zeros.
TEST(EventFile, TheChecksumIsCastagnolis) {
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43u);
}

// The bytes are those of TensorFlow's own writer for the same two events.
TEST(EventFile, TheBytesAreThoseOfTensorFlow) {
  const test::ScratchFolder scratch;
  {
    EventFile file(scratch / "tb", 1.0);
    file.scalars(2.0, 1, std::vector<ScalarEvent>{{"loss", 1.5}});
  }
  EXPECT_EQ(hex(read_file(only_file(scratch / "tb"))),
            "1800000000000000a37f4b2209000000000000f03f1a0d627261696e2e4576656e743a3286bf577a"
            "1a00000000000000129bd82d09000000000000004010012a0d0a0b0a046c6f7373150000c03f7afd8bf4");
}

TEST(EventFile, ALaterFileSortsBehindWhateverTheClockSays) {
  const test::ScratchFolder scratch;
  EXPECT_FALSE(has_event_files(scratch / "tb"));
  for (const double time : {1764083655.9, 1764083655.95, 1764080000.0}) {
    std::vector<std::string> before;
    if (has_event_files(scratch / "tb")) before = list_folder(scratch / "tb");
    const EventFile file(scratch / "tb", time);
    const std::vector<std::string> after = list_folder(scratch / "tb");
    ASSERT_EQ(after.size(), before.size() + 1);
    EXPECT_TRUE(std::equal(before.begin(), before.end(), after.begin())) << "the new name is the last";
  }
  EXPECT_TRUE(has_event_files(scratch / "tb"));
}

TEST(EventFile, WithoutScalarsNothingIsWritten) {
  const test::ScratchFolder scratch;
  EventFile file(scratch / "tb", 1.0);
  const std::string before = read_file(only_file(scratch / "tb"));
  file.scalars(2.0, 1, {});
  EXPECT_EQ(read_file(only_file(scratch / "tb")), before);
}

}  // namespace
}  // namespace hearth::metrics
