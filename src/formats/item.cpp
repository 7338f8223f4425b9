// SPDX-License-Identifier: Apache-2.0
#include "formats/item.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/hash.h"
#include "formats/pickle.h"
#include "formats/tensor_object.h"

namespace hearth::formats {
namespace {

constexpr int64_t kReadBytes = int64_t{4} << 20;
constexpr PickleLimits kPickleLimits{.max_bytes = 1 << 20, .max_text = 4096, .max_values = 1 << 16};

}  // namespace

void add_tensor(ZipWriter& zip, DType dtype, const std::vector<int64_t>& sizes, std::span<const std::byte> bytes) {
  int64_t numel = 1;
  for (const int64_t size : sizes) numel *= size;
  HEARTH_CHECK(numel * dtype_size(dtype) == static_cast<int64_t>(bytes.size()), "{} elements, {} bytes", numel,
               bytes.size());
  PickleWriter pickle;
  write_tensor_object(pickle, dtype, sizes, "0");
  add_head(zip, pickle);
  zip.add("archive/data/0", bytes);
  zip.add("archive/version", "3\n");
}

TensorLayout read_tensor_layout(const File& file, int64_t offset, int64_t length, const std::string& origin) {
  const std::vector<ZipMember> members = read_zip_directory(file, offset, length, origin);
  const Pickle pickle =
      read_data_pkl(file, find_member(members, "byteorder"), find_member(members, "data.pkl"), kPickleLimits, origin);
  const TensorObject tensor = read_tensor_object(pickle, pickle.root(), origin);
  return place_tensor(tensor, find_member(members, "data/" + tensor.storage), origin);
}

uint64_t hash_range(const File& file, int64_t offset, int64_t length) {
  StreamingHash hash;
  std::vector<std::byte> buffer(static_cast<size_t>(std::min(length, kReadBytes)));
  while (length > 0) {
    const std::span<std::byte> part = std::span(buffer).first(static_cast<size_t>(std::min(length, kReadBytes)));
    file.read_at(offset, part);
    hash.update(part);
    offset += static_cast<int64_t>(part.size());
    length -= static_cast<int64_t>(part.size());
  }
  return hash.digest_64();
}

void check_crc(const File& file, int64_t offset, int64_t length, const std::string& origin) {
  for (const ZipMember& member : read_zip_directory(file, offset, length, origin)) {
    if (!member.has_crc()) continue;
    const uint32_t crc = crc_of(file, member);
    if (crc != member.crc) {
      throw damaged(fmt::format("{}: {} is damaged", origin, member.name),
                    fmt::format("CRC-32 {:08x}, expected {:08x}", crc, member.crc));
    }
  }
}

}  // namespace hearth::formats
