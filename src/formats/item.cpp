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

std::string read_member(const File& file, const ZipMember& member, int64_t max_length, const std::string& origin) {
  if (member.length > max_length)
    throw damaged(fmt::format("{}: {} has {} bytes", origin, member.name, member.length), "far more than expected");
  std::string text(static_cast<size_t>(member.length), '\0');
  file.read_at(member.offset, std::as_writable_bytes(std::span(text)));
  return text;
}

}  // namespace

void add_tensor(ZipWriter& zip, DType dtype, const std::vector<int64_t>& sizes, std::span<const std::byte> bytes) {
  int64_t numel = 1;
  for (const int64_t size : sizes) numel *= size;
  HEARTH_CHECK(numel * dtype_size(dtype) == static_cast<int64_t>(bytes.size()), "{} elements, {} bytes", numel,
               bytes.size());
  PickleWriter pickle;
  write_tensor_object(pickle, dtype, sizes, "0");
  zip.add("archive/data.pkl", pickle.finish());
  zip.add("archive/.format_version", "1");
  zip.add("archive/.storage_alignment", "64");
  zip.add("archive/byteorder", "little");
  zip.add("archive/data/0", bytes);
  zip.add("archive/version", "3\n");
}

TensorLayout read_tensor_layout(const File& file, int64_t offset, int64_t length, const std::string& origin) {
  const std::vector<ZipMember> members = read_zip_directory(file, offset, length, origin);
  const ZipMember* byteorder = find_member(members, "byteorder");
  if (byteorder != nullptr && read_member(file, *byteorder, 64, origin) != "little")
    throw user_error(fmt::format("{}: written on a big-endian machine; only little-endian files are read", origin));
  const ZipMember* data_pkl = find_member(members, "data.pkl");
  if (data_pkl == nullptr) throw damaged(fmt::format("{}: has no data.pkl", origin));
  const std::string pickle_bytes = read_member(file, *data_pkl, kPickleLimits.max_bytes, origin);
  const Pickle pickle = Pickle::parse(std::as_bytes(std::span(pickle_bytes)), origin, kPickleLimits);

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
