// CRC-32 as zip uses it: reflected polynomial 0xedb88320 (ISO 3309, PKWARE APPNOTE 4.4.7).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace hearth::formats {

// `crc` is the value so far, 0 at the start.
uint32_t crc32(std::span<const std::byte> bytes, uint32_t crc = 0);

}  // namespace hearth::formats
