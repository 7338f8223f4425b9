#include "convert/rank_parts.h"

#include <fmt/format.h>

#include <algorithm>

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
    std::vector<int64_t> offsets(first.sizes.size());
    if (split && *split < offsets.size()) offsets[*split] = rank * first.sizes[*split];
    if (split || rank == 0) add_part(tensor, part, offsets);
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
  const int64_t row = mesh::Box{{}, part.layout.sizes}.numel() / std::max<int64_t>(part.layout.sizes[0], 1);
  const int64_t begin = from * row, end = (from + count) * row;
  rows.layout.sizes[0] = count;
  rows.layout.data_offset += from * rows.layout.strides[0] * dtype_size(rows.layout.dtype);
  rows.runs.clear();
  for (const FlatRun& run : part.runs) {
    const int64_t first = std::max(run.begin, begin), last = std::min(run.begin + run.count, end);
    if (first < last)
      rows.runs.push_back({run.file, run.offset + (first - run.begin) * dtype_size(part.layout.dtype), first - begin,
                           last - first, run.member});
  }
  return rows;
}

void add_rows(OutsideTensor& tensor, const RankPart& part, int64_t from, int64_t count, int64_t to) {
  add_part(tensor, rows_of(part, from, count), {to, 0});
}

void add_part(OutsideTensor& tensor, const RankPart& part, const std::vector<int64_t>& offsets) {
  if (part.runs.empty()) {
    tensor.pieces.push_back({{offsets, part.layout.sizes}, part.file, part.layout});
    return;
  }
  for (const FlatRun& run : part.runs) {
    int64_t offset = run.offset;
    for (mesh::Box& box : mesh::boxes_of_flat_range(part.layout.sizes, run.begin, run.begin + run.count)) {
      formats::TensorLayout layout = part.layout;  // strides of the whole part
      layout.sizes = box.sizes;
      layout.data_offset = offset;
      layout.member = run.member;
      offset += box.numel() * dtype_size(layout.dtype);
      for (size_t d = 0; d < offsets.size(); ++d) box.offsets[d] += offsets[d];
      tensor.pieces.push_back({std::move(box), run.file, std::move(layout)});
    }
  }
}

bool same_elements(const Path& folder, const RankPart& a, const RankPart& b) {
  const auto elements = [&](const RankPart& of) {
    const mesh::Box box{std::vector<int64_t>(of.layout.sizes.size()), of.layout.sizes};
    const int64_t size = dtype_size(of.layout.dtype);
    std::vector<std::byte> bytes(static_cast<size_t>(box.numel() * size));
    if (of.runs.empty()) formats::copy_box(File::open_read(folder / of.file), of.layout, box, box, bytes);
    for (const FlatRun& run : of.runs)
      File::open_read(folder / run.file)
          .read_at(run.offset, std::span(bytes).subspan(static_cast<size_t>(run.begin * size),
                                                        static_cast<size_t>(run.count * size)));
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
