// SPDX-License-Identifier: Apache-2.0
#include "convert/rank_parts.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"

namespace hearth::convert {

using checkpoint::OutsideTensor;

Description require_described(const Path& folder, const Description* described, const char* why) {
  if (described == nullptr)
    throw user_error(fmt::format("{} does not describe its model", folder.string()), why,
                     "use `hearth convert --config RUN.toml`, with a run file whose [model] is this model's");
  Description description = *described;
  description.model.rope_pairs = config::RopePairs::kHalves;
  return description;
}

void check_parts(const RankParts& parts, int64_t ranks, const Path& folder, const std::string& what) {
  if (std::ssize(parts) != ranks || parts.rbegin()->first != ranks - 1)
    throw user_error(fmt::format("{} lacks {} of a rank", folder.string(), what),
                     fmt::format("{} ranks have a part of it, and {} ranks are there", parts.size(), ranks),
                     "copy all files");
  for (const auto& [rank, part] : parts) {
    const formats::TensorLayout &first = parts.begin()->second.layout, &layout = part.layout;
    if (layout.sizes != first.sizes || layout.dtype != first.dtype)
      throw damaged(
          fmt::format("{}: {} has another shape or type than in the first rank", (folder / part.file).string(), what),
          fmt::format("it is {} {}, and in {} it is {} {}", dtype_name(layout.dtype),
                      formats::format_shape(layout.sizes), parts.begin()->second.file, dtype_name(first.dtype),
                      formats::format_shape(first.sizes)),
          "copy all files of one save again");
  }
}

namespace {

// Rows [from, from + count) of a part.
RankPart rows_of(const RankPart& part, int64_t from, int64_t count) {
  RankPart rows = part;
  const int64_t row = mesh::Box{{}, part.layout.sizes}.numel() / std::max<int64_t>(part.layout.sizes[0], 1);
  const int64_t begin = from * row, end = (from + count) * row;
  rows.layout.sizes[0] = count;
  rows.layout.data_offset += from * rows.layout.strides[0] * dtype_size(rows.layout.dtype);
  rows.runs.clear();
  for (const FileRun& run : part.runs) {
    const int64_t first = std::max(run.begin, begin), last = std::min(run.begin + run.count, end);
    if (first < last)
      rows.runs.push_back({run.file, run.offset + (first - run.begin) * dtype_size(part.layout.dtype), first - begin,
                           last - first, run.member});
  }
  return rows;
}

// The part becomes the box of the tensor that begins at `offsets`.
void add_part(OutsideTensor& tensor, const RankPart& part, const std::vector<int64_t>& offsets) {
  if (part.runs.empty()) {
    tensor.pieces.push_back({{offsets, part.layout.sizes}, part.file, part.layout});
    return;
  }
  for (const FileRun& run : part.runs) {
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

}  // namespace

JoinedRow joined(const RankRow& row, const RankLayout& layout, const RankParts& parts, std::vector<int64_t> sizes) {
  const formats::TensorLayout& first = parts.begin()->second.layout;
  const size_t d = row.dimension.value_or(0);
  const bool is_cut = row.dimension && d < first.sizes.size();
  if (is_cut && sizes.empty()) sizes = {first.sizes[d] * layout.owners(row.sources[0].heads)};
  JoinedRow found;
  for (size_t i = 0; i < row.sources.size(); ++i) {
    OutsideTensor& tensor =
        found.tensors.emplace_back(OutsideTensor{{row.sources[i].name, first.dtype, first.sizes}, {}});
    if (is_cut) tensor.info.shape[d] = sizes[i];
  }
  std::map<std::pair<size_t, int64_t>, std::pair<int64_t, RankPart>> owners;  // by source and first row
  for (const auto& [rank, part] : parts) {
    int64_t from = 0;
    for (const RankRun& run : is_cut ? layout.runs(row, sizes, rank) : std::vector<RankRun>{{0, 0, 0}}) {
      const bool is_whole = !is_cut || run.count == first.sizes[d];
      const RankPart piece = is_whole ? part : rows_of(part, from, run.count);
      from += run.count;
      const auto [owner, is_new] = owners.emplace(std::pair(run.source, run.first), std::pair(rank, piece));
      if (!is_new) {
        found.copies.push_back({owner->second.first, rank, owner->second.second, piece});
        continue;
      }
      std::vector<int64_t> offsets(first.sizes.size());
      if (is_cut) offsets[d] = run.first;
      add_part(found.tensors[run.source], piece, offsets);
    }
  }
  return found;
}

std::vector<int64_t> required_sizes(const RankRow& row, const RankLayout& layout, const RankParts& parts,
                                    const plan::ModelShape& shape, const Path& folder, const std::string& what) {
  if (row.sources.size() == 1) return {};
  std::vector<int64_t> sizes = sizes_of(row, shape);
  int64_t rows = 0;
  for (size_t i = 0; i < sizes.size(); ++i) rows += sizes[i] / layout.owners(row.sources[i].heads);
  const std::vector<int64_t>& found = parts.begin()->second.layout.sizes;
  if (found.size() != 2 || found[0] != rows)
    throw user_error(
        fmt::format("{}: {} has shape {}, expected {} rows", folder.string(), what, formats::format_shape(found), rows),
        "[model] is another model's", "give --config the keys of this model");
  return sizes;
}

bool same_elements(const Path& folder, const RankPart& a, const RankPart& b) {
  const auto elements = [&](const RankPart& of) {
    const mesh::Box box{std::vector<int64_t>(of.layout.sizes.size()), of.layout.sizes};
    const int64_t size = dtype_size(of.layout.dtype);
    std::vector<std::byte> bytes(static_cast<size_t>(box.numel() * size));
    if (of.runs.empty()) formats::copy_box(File::open_read(folder / of.file), of.layout, box, box, bytes);
    for (const FileRun& run : of.runs)
      File::open_read(folder / run.file)
          .read_at(run.offset, std::span(bytes).subspan(static_cast<size_t>(run.begin * size),
                                                        static_cast<size_t>(run.count * size)));
    return bytes;
  };
  return elements(a) == elements(b);
}

}  // namespace hearth::convert
