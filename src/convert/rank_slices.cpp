#include "convert/rank_slices.h"

#include <algorithm>

#include "base/error.h"
#include "formats/torch_file.h"

namespace hearth::convert {

namespace {

// The embedding is the output matrix, too, where the model has no other one.
const Transfer& find_tensor(const std::vector<Transfer>& tensors, const std::string& hearth) {
  const auto found =
      std::find_if(tensors.begin(), tensors.end(), [&](const Transfer& tensor) { return tensor.to.name == hearth; });
  if (found == tensors.end() && hearth == "output.weight") return find_tensor(tensors, "tok_embeddings.weight");
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

std::vector<mesh::TensorInfo> infos_of(const std::vector<RankTensor>& tensors) {
  std::vector<mesh::TensorInfo> infos;
  for (const RankTensor& tensor : tensors) infos.push_back(tensor.info);
  return infos;
}

int64_t bytes_of(const std::vector<RankTensor>& tensors) {
  int64_t bytes = 0;
  for (const RankTensor& tensor : tensors) bytes += bytes_of(tensor.info);
  return bytes;
}

void write_tensor(checkpoint::Reader& reader, const RankTensor& tensor, Progress& progress,
                  const std::function<void(std::span<const std::byte> bytes)>& write) {
  if (!tensor.values.empty()) write(tensor.values);
  for (const RankSlice& slice : tensor.slices) {
    transfer(reader, *slice.from, slice.box, progress,
             [&](const mesh::Box&, std::span<const std::byte> bytes) { write(bytes); });
  }
}

void write_elements(checkpoint::Reader& reader, const RankTensor& tensor, int64_t begin, int64_t end,
                    Progress& progress, const std::function<void(std::span<const std::byte> bytes)>& write) {
  HEARTH_CHECK(tensor.values.empty());
  for (int64_t at = 0; const RankSlice& slice : tensor.slices) {
    const int64_t numel = slice.box.numel(), first = std::max(begin, at), last = std::min(end, at + numel);
    if (first < last) {
      for (mesh::Box& box : mesh::boxes_of_flat_range(slice.box.sizes, first - at, last - at)) {
        for (size_t d = 0; d < box.offsets.size(); ++d) box.offsets[d] += slice.box.offsets[d];
        transfer(reader, *slice.from, box, progress,
                 [&](const mesh::Box&, std::span<const std::byte> bytes) { write(bytes); });
      }
    }
    at += numel;
  }
}

void write_rank_file(const Path& path, checkpoint::Reader& reader, const std::vector<RankTensor>& tensors,
                     Progress& progress, const std::string& key) {
  formats::TorchFileWriter writer(path, infos_of(tensors), key);
  for (const RankTensor& tensor : tensors)
    write_tensor(reader, tensor, progress, [&](std::span<const std::byte> bytes) { writer.write(bytes); });
  writer.finish();
}

}  // namespace hearth::convert
