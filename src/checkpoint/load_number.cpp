// Numbers in a checkpoint that are no weights.
#include <fmt/format.h>

#include <array>
#include <cstring>

#include "base/error.h"
#include "checkpoint/load.h"
#include "formats/scalar.h"

namespace hearth::checkpoint {
namespace {

template <class Value>
double value_of(std::span<const std::byte> bytes) {
  Value value{};
  std::memcpy(&value, bytes.data(), sizeof(value));
  return static_cast<double>(value);
}

}  // namespace

std::optional<double> Reader::number(std::string_view name) {
  for (const formats::OtherEntry& other : metadata().others) {
    if (other.name != name || other.file.empty()) continue;
    const Path path = folder() / other.file;
    if (!path_exists(path))
      throw damaged(fmt::format("{} is missing", path.string()), fmt::format("{} was in it", name));
    const File file = File::open_read(path);
    if (other.length > file.size_bytes() - other.offset)
      throw damaged(fmt::format("{} is cut short: {}", name, path.string()));
    return formats::read_number(file, other.offset, other.length, fmt::format("{} ({})", name, path.string()));
  }
  const mesh::TensorInfo* tensor = find(name);
  if (tensor == nullptr || !tensor->shape.empty()) return std::nullopt;
  std::array<std::byte, 8> bytes{};
  read(name, {}, std::span(bytes).first(static_cast<size_t>(dtype_size(tensor->dtype))));
  if (tensor->dtype == DType::kInt32) return value_of<int32_t>(bytes);
  if (tensor->dtype == DType::kInt64) return value_of<int64_t>(bytes);
  if (tensor->dtype == DType::kFloat32) return value_of<float>(bytes);
  if (tensor->dtype == DType::kFloat64) return value_of<double>(bytes);
  return std::nullopt;
}

}  // namespace hearth::checkpoint
