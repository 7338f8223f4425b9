// SPDX-License-Identifier: Apache-2.0
// The CRC-32 that multiplies without carries, compared with zlib's.
#include "formats/crc32.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <vector>

#include "base/random.h"

namespace hearth::formats {
namespace {

std::vector<std::byte> noise(size_t size) {
  const RandomKey key = random_key(7, "noise for a checksum");
  std::vector<std::byte> bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(random_u64(key, i));
  return bytes;
}

uint32_t zlibs(uint32_t before, std::span<const std::byte> data) {
  return static_cast<uint32_t>(::crc32_z(before, reinterpret_cast<const Bytef*>(data.data()), data.size()));
}

TEST(Crc32, IsZlibsForEveryLengthAndPlace) {
  const std::vector<std::byte> bytes = noise(2000);
  for (size_t size = 0; size < 1400; ++size) {
    const std::span<const std::byte> part = std::span(bytes).subspan(size % 17, size);
    ASSERT_EQ(crc32(0, part), zlibs(0, part)) << size;
    ASSERT_EQ(crc32(0x12345678, part), zlibs(0x12345678, part)) << size;
  }
}

TEST(Crc32, GoesOnFromTheBytesBefore) {
  const std::vector<std::byte> bytes = noise(100'000);
  uint32_t crc = 0;
  for (size_t at = 0, size = 1; at < bytes.size(); at += size, size = size * 3 % 977 + 1)
    crc = crc32(crc, std::span(bytes).subspan(at, std::min(size, bytes.size() - at)));
  EXPECT_EQ(crc, zlibs(0, bytes));
  EXPECT_EQ(crc32(0, std::as_bytes(std::span("123456789", 9))), 0xcbf43926U);  // the check value of the catalogue
}

}  // namespace
}  // namespace hearth::formats
