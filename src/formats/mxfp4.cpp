// SPDX-License-Identifier: Apache-2.0
#include "formats/mxfp4.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/error.h"

namespace hearth::formats {
namespace {

constexpr int kScaleBias = 127, kNoNumber = 255;
// The numbers of three bits behind the sign.
constexpr std::array<float, 8> kE2m1 = {0, 0.5, 1, 1.5, 2, 3, 4, 6};

// The sixteen numbers of four bits with this scale.
std::array<uint16_t, 16> numbers_with(uint8_t scale) {
  std::array<uint16_t, 16> numbers{};
  for (size_t i = 0; i < numbers.size(); ++i) {
    const float size = scale == kNoNumber ? std::numeric_limits<float>::quiet_NaN()
                                          : std::ldexp(kE2m1[i % kE2m1.size()], scale - kScaleBias);
    // The low bits of these float32 are 0.
    numbers[i] = static_cast<uint16_t>(std::bit_cast<uint32_t>(i < kE2m1.size() ? size : -size) >> 16);
  }
  return numbers;
}

const std::array<uint16_t, 16>& table_of(uint8_t scale) {
  static const std::array<std::array<uint16_t, 16>, 256> tables = [] {
    std::array<std::array<uint16_t, 16>, 256> all{};
    for (size_t scale_byte = 0; scale_byte < all.size(); ++scale_byte)
      all[scale_byte] = numbers_with(static_cast<uint8_t>(scale_byte));
    return all;
  }();
  return tables[scale];
}

}  // namespace

ByteRange scales_of(const Mxfp4Rows& rows, int64_t columns, const mesh::Box& box) {
  return {rows.scales_offset + box.offsets[0] * rows.scales_stride,
          (box.sizes[0] - 1) * rows.scales_stride + columns / kMxfp4Block};
}

void read_mxfp4(const File& file, const Mxfp4Rows& rows, std::span<const std::byte> scales, const mesh::Box& box,
                std::span<std::byte> out) {
  const int64_t first = box.offsets[1] / kMxfp4Block, begin = box.offsets[1], end = begin + box.sizes[1];
  const int64_t blocks = (end + kMxfp4Block - 1) / kMxfp4Block - first;
  HEARTH_CHECK(static_cast<int64_t>(out.size()) == box.sizes[0] * box.sizes[1] * 2, "a buffer of {} bytes", out.size());
  std::vector<std::byte> packed(static_cast<size_t>(blocks * kMxfp4BlockBytes));
  std::byte* to = out.data();
  for (int64_t row = 0; row < box.sizes[0]; ++row) {
    file.read_at(rows.offset + (box.offsets[0] + row) * rows.stride + first * kMxfp4BlockBytes, packed);
    for (int64_t column = begin; column < end; ++column, to += sizeof(uint16_t)) {
      const int64_t block = column / kMxfp4Block, in_block = column % kMxfp4Block;
      const auto both =
          static_cast<uint32_t>(packed[static_cast<size_t>((block - first) * kMxfp4BlockBytes + in_block / 2)]);
      const auto scale = static_cast<uint8_t>(scales[static_cast<size_t>(row * rows.scales_stride + block)]);
      const uint16_t number = table_of(scale)[in_block % 2 == 0 ? both & 15U : both >> 4U];
      std::memcpy(to, &number, sizeof number);
    }
  }
}

}  // namespace hearth::formats
