// SPDX-License-Identifier: Apache-2.0
// One tensor as torch.save writes it: a zip with data.pkl (its description) and data/0 (its bytes). DCP's files are a
// sequence of these.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/file.h"
#include "formats/zip.h"
#include "mesh/tensor_box.h"

namespace hearth::formats {

// Files with more are refused. Within these limits no product of sizes and strides overflows.
inline constexpr int64_t kMaxTensorDimensions = 64;
inline constexpr int64_t kMaxTensorElements = int64_t{1} << 56;

// Adds the members of a contiguous tensor of `sizes`; `bytes` is borrowed until the archive has been written.
void add_tensor(ZipWriter& zip, DType dtype, const std::vector<int64_t>& sizes, std::span<const std::byte> bytes);

// Bytes of a file with their CRC-32: the data of a zip's member.
struct CrcRange {
  int64_t offset = 0, length = 0;
  uint32_t crc = 0;
};

// A stored tensor's layout: element i is at byte data_offset + dtype_size * sum(i[d] * strides[d]).
struct TensorLayout {
  DType dtype;
  std::vector<int64_t> sizes, strides;  // strides in elements, never negative
  int64_t data_offset = 0;              // bytes from the start of the file
  CrcRange member = {};                 // the zip member with the elements; length 0: the format has no checksums
};

// Reads the item in bytes [offset, offset + length) of `file` and checks that every element is inside it. Accepts
// torch.save's output for a tensor or a Parameter of any strides. Throws damaged() naming `origin`.
TensorLayout read_tensor_layout(const File& file, int64_t offset, int64_t length, const std::string& origin);

// Receives bytes that were read from offset `at` of a file.
using ReadBytes = std::function<void(int64_t at, std::span<const std::byte> bytes)>;

// Copies elements of a stored tensor, which is the box `stored` of a whole tensor. Elements inside the box `wanted` go
// to `out`, which holds that box in row-major order. Returns the number of copied elements, 0 if the boxes do not meet.
// `seen` receives all bytes that are read for this: the elements, and the bytes between them.
int64_t copy_box(const File& file, const TensorLayout& layout, const mesh::Box& stored, const mesh::Box& wanted,
                 std::span<std::byte> out, const ReadBytes& seen = {});

// XXH3-64 of bytes [offset, offset + length).
uint64_t hash_range(const File& file, int64_t offset, int64_t length);

// Checks the CRC-32 of every member of an item.
void check_crc(const File& file, int64_t offset, int64_t length, const std::string& origin);

}  // namespace hearth::formats
