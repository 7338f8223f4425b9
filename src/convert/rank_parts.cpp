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

void add_rows(OutsideTensor& tensor, const RankPart& part, int64_t from, int64_t count, int64_t to) {
  formats::TensorLayout layout = part.layout;
  layout.sizes[0] = count;
  layout.data_offset += from * layout.strides[0] * dtype_size(layout.dtype);
  tensor.pieces.push_back({{{to, 0}, layout.sizes}, part.file, std::move(layout)});
}

void require_rows(const RankParts& parts, const Path& folder, const std::string& what, int64_t rows) {
  const std::vector<int64_t>& sizes = parts.begin()->second.layout.sizes;
  if (sizes.size() != 2 || sizes[0] != rows)
    throw user_error(
        fmt::format("{}: {} has shape {}, expected {} rows", folder.string(), what, formats::format_shape(sizes), rows),
        "[model] is another model's", "give --config the keys of this model");
}

}  // namespace hearth::convert
