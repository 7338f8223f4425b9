#include "convert/rank_parts.h"

#include <fmt/format.h>

#include "base/error.h"

namespace hearth::convert {

using checkpoint::OutsideTensor;

void check_parts(const RankParts& parts, int64_t ranks, const Path& folder, const std::string& what) {
  if (std::ssize(parts) != ranks || parts.rbegin()->first != ranks - 1)
    throw user_error(fmt::format("{} lacks {} of a rank", folder.string(), what),
                     fmt::format("{} ranks have a part of it, and {} ranks are there", parts.size(), ranks),
                     "copy all files");
  for (const auto& [rank, part] : parts) {
    const formats::TensorLayout &first = parts.begin()->second.layout, &layout = part.layout;
    if (layout.sizes != first.sizes || layout.dtype != first.dtype || layout.sizes.size() > 2)
      throw damaged(
          fmt::format("{}: {} has another shape or type than in the first rank", (folder / part.file).string(), what));
  }
}

OutsideTensor joined(const std::string& name, const RankParts& parts, std::optional<size_t> split) {
  const formats::TensorLayout& first = parts.begin()->second.layout;
  OutsideTensor tensor{{name, first.dtype, first.sizes}, {}};
  for (const auto& [rank, part] : parts) {
    mesh::Box box{std::vector<int64_t>(first.sizes.size()), first.sizes};
    if (split && *split < box.offsets.size()) box.offsets[*split] = rank * first.sizes[*split];
    if (split || rank == 0) tensor.pieces.push_back({box, part.file, part.layout});
  }
  if (split && *split < first.sizes.size()) tensor.info.shape[*split] *= std::ssize(parts);
  return tensor;
}

OutsideTensor matrix_of(const std::string& name, const RankParts& parts, int64_t rows) {
  const formats::TensorLayout& first = parts.begin()->second.layout;
  return {{name, first.dtype, {rows, first.sizes[1]}}, {}};
}

RankPart rows_of(const RankPart& part, int64_t from, int64_t count) {
  RankPart rows = part;
  rows.layout.sizes[0] = count;
  rows.layout.data_offset += from * rows.layout.strides[0] * dtype_size(rows.layout.dtype);
  return rows;
}

void add_rows(OutsideTensor& tensor, const RankPart& part, int64_t from, int64_t count, int64_t to) {
  RankPart rows = rows_of(part, from, count);
  tensor.pieces.push_back({{{to, 0}, rows.layout.sizes}, part.file, std::move(rows.layout)});
}

bool same_elements(const Path& folder, const RankPart& a, const RankPart& b) {
  const auto elements = [&](const RankPart& of) {
    const mesh::Box box{std::vector<int64_t>(of.layout.sizes.size()), of.layout.sizes};
    std::vector<std::byte> bytes(static_cast<size_t>(box.numel() * dtype_size(of.layout.dtype)));
    formats::copy_box(File::open_read(folder / of.file), of.layout, box, box, bytes);
    return bytes;
  };
  return elements(a) == elements(b);
}

void require_rows(const RankParts& parts, const Path& folder, const std::string& what, int64_t rows) {
  const std::vector<int64_t>& sizes = parts.begin()->second.layout.sizes;
  if (sizes.size() != 2 || sizes[0] != rows)
    throw user_error(
        fmt::format("{}: {} has shape {}, expected {} rows", folder.string(), what, formats::format_shape(sizes), rows),
        "[model] is another model's", "give --config the keys of this model");
}

}  // namespace hearth::convert
