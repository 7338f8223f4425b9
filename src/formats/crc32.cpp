#include "formats/crc32.h"

#include <array>
#include <bit>
#include <cstring>

namespace hearth::formats {
namespace {

static_assert(std::endian::native == std::endian::little, "the 16-byte step reads little-endian words");

// Slicing by 16: table[k][b] is the CRC of byte b followed by k zero bytes, so that 16 input bytes cost 16 look-ups
// that do not wait for one another.
using Table = std::array<std::array<uint32_t, 256>, 16>;

constexpr Table make_table() {
  Table table{};
  for (uint32_t b = 0; b < 256; ++b) {
    uint32_t crc = b;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xedb88320u : 0u);
    table[0][b] = crc;
  }
  for (size_t k = 1; k < 16; ++k) {
    for (size_t b = 0; b < 256; ++b) table[k][b] = (table[k - 1][b] >> 8) ^ table[0][table[k - 1][b] & 0xff];
  }
  return table;
}

constexpr Table kTable = make_table();

}  // namespace

uint32_t crc32(std::span<const std::byte> bytes, uint32_t crc) {
  crc = ~crc;
  while (bytes.size() >= 16) {
    uint32_t words[4];
    std::memcpy(words, bytes.data(), 16);
    words[0] ^= crc;
    crc = 0;
    for (size_t i = 0; i < 16; ++i) crc ^= kTable[15 - i][words[i / 4] >> (8 * (i % 4)) & 0xff];
    bytes = bytes.subspan(16);
  }
  for (const std::byte byte : bytes) crc = (crc >> 8) ^ kTable[0][(crc ^ static_cast<uint32_t>(byte)) & 0xff];
  return ~crc;
}

}  // namespace hearth::formats
