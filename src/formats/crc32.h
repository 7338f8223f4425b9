// SPDX-License-Identifier: Apache-2.0
// The CRC-32 of zip archives (polynomial 0x04C11DB7, bits reflected), as zlib's crc32 gives it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace hearth::formats {

// `before`: the CRC-32 of the bytes in front of `data`; 0 at the start. Multiplies without carries where the CPU can:
// several times as fast as zlib.
uint32_t crc32(uint32_t before, std::span<const std::byte> data);
// The CRC-32 of two parts, one after the other, from the CRC-32 of each. `bytes`: the length of the second one.
uint32_t join_crc32(uint32_t first, uint32_t second, int64_t bytes);

}  // namespace hearth::formats
