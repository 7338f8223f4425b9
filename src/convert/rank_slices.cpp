// SPDX-License-Identifier: Apache-2.0
#include "convert/rank_slices.h"

#include <algorithm>

#include "base/error.h"

namespace hearth::convert {

namespace {

// The embedding is the output matrix, too, where the model has no other one.
const Transfer& find_tensor(const std::vector<Transfer>& tensors, const std::string& hearth) {
  const auto found =
      std::find_if(tensors.begin(), tensors.end(), [&](const Transfer& tensor) { return tensor.to.name == hearth; });
  if (found == tensors.end() && hearth == kOutput) return find_tensor(tensors, kEmbedding);
  HEARTH_CHECK(found != tensors.end(), "the model lacks {}", hearth);
  return *found;
}

}  // namespace

RankTensor cut(const std::vector<Transfer>& tensors, const RankRow& row, const RankLayout& layout, int64_t rank) {
  const size_t d = row.dimension.value_or(0);
  std::vector<const Transfer*> sources;
  std::vector<int64_t> sizes;
  for (const std::string& name : row.source_names())
    sizes.push_back(sources.emplace_back(&find_tensor(tensors, name))->to.shape[d]);
  RankTensor tensor{{row.name, sources[0]->to.dtype, sources[0]->to.shape}, {}, {}};
  tensor.info.shape[d] = 0;
  for (const RankRun& run : layout.runs(row, sizes, rank)) {
    const Transfer& from = *sources[run.source];
    mesh::Box box{std::vector<int64_t>(from.to.shape.size()), from.to.shape};
    box.offsets[d] = run.first;
    box.sizes[d] = run.count;
    tensor.info.shape[d] += run.count;
    tensor.slices.push_back({&from, std::move(box)});
  }
  return tensor;
}

int64_t bytes_of(const std::vector<RankTensor>& tensors) {
  int64_t bytes = 0;
  for (const RankTensor& tensor : tensors) bytes += bytes_of(tensor.info);
  return bytes;
}

PythonTensor python_tensor(checkpoint::Reader& reader, const RankTensor& tensor, ConvertProgress& progress) {
  return {tensor.info, [&](const ByteWriter& sink) {
            if (!tensor.values.empty()) return sink(tensor.values);
            for (const RankSlice& slice : tensor.slices)
              transfer(reader, *slice.from, slice.box, progress, [&](const mesh::Box&, auto bytes) { sink(bytes); });
          }};
}

void write_elements(checkpoint::Reader& reader, const RankTensor& tensor, int64_t begin, int64_t end,
                    ConvertProgress& progress, const ByteWriter& sink) {
  HEARTH_CHECK(tensor.values.empty());
  for (int64_t at = 0; const RankSlice& slice : tensor.slices) {
    const int64_t numel = slice.box.numel(), first = std::max(begin, at), last = std::min(end, at + numel);
    if (first < last) {
      for (mesh::Box& box : mesh::boxes_of_flat_range(slice.box.sizes, first - at, last - at)) {
        for (size_t d = 0; d < box.offsets.size(); ++d) box.offsets[d] += slice.box.offsets[d];
        transfer(reader, *slice.from, box, progress, [&](const mesh::Box&, auto bytes) { sink(bytes); });
      }
    }
    at += numel;
  }
}

void write_zeros(int64_t numel, const ByteWriter& sink) {
  if (numel > 0) sink(std::vector<std::byte>(static_cast<size_t>(numel * dtype_size(DType::kFloat32))));
}

PythonDict rank_dict(checkpoint::Reader& reader, const std::vector<RankTensor>& tensors, ConvertProgress& progress) {
  PythonDict dict;
  for (const RankTensor& tensor : tensors) dict.push_back({tensor.info.name, python_tensor(reader, tensor, progress)});
  return dict;
}

}  // namespace hearth::convert
