// SPDX-License-Identifier: Apache-2.0
// MXFP4: numbers of four bits (e2m1: a sign, two bits of exponent and one of mantissa) in blocks of 32, which share a
// power of two. Source: OCP Microscaling Formats 1.0, and the files of gpt-oss (arXiv 2508.10925): a byte has two
// numbers, the first in its low four bits, and a scale is a byte s for 2^(s - 127).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/file.h"
#include "mesh/tensor_box.h"

namespace hearth::formats {

inline constexpr int64_t kMxfp4Block = 32, kMxfp4BlockBytes = 16;

// A matrix [rows, columns] in a file: its numbers, and its scales, which may be in another file. Strides are in bytes,
// from row to row. A row's own bytes are contiguous, and its columns are whole blocks.
struct Mxfp4Rows {
  int64_t offset = 0, stride = 0;
  int64_t scales_offset = 0, scales_stride = 0;
};

// The numbers of `box` as bfloat16, row-major, in `out`. Exact: bfloat16 has all of them, except those above its
// largest, which become infinite. A scale of 255 makes NaN. `scales`: all bytes from the first row's scales to the last
// row's.
void read_mxfp4(const File& file, const Mxfp4Rows& rows, std::span<const std::byte> scales, const mesh::Box& box,
                std::span<std::byte> out);
// Where these scales lie in their file.
struct ByteRange {
  int64_t offset, length;
};
ByteRange scales_of(const Mxfp4Rows& rows, int64_t columns, const mesh::Box& box);

}  // namespace hearth::formats
