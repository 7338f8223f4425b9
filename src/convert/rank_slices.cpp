#include "convert/rank_slices.h"

#include <algorithm>

#include "base/error.h"
#include "formats/torch_file.h"

namespace hearth::convert {

const Transfer& RankSlicer::find(const std::string& hearth) const {
  const auto found =
      std::find_if(tensors_.begin(), tensors_.end(), [&](const Transfer& tensor) { return tensor.to.name == hearth; });
  HEARTH_CHECK(found != tensors_.end(), "the model lacks {}", hearth);
  return *found;
}

void RankSlicer::append_rows(RankTensor& to, const Transfer& from, int64_t first, int64_t count) {
  mesh::Box box{std::vector<int64_t>(from.to.shape.size()), from.to.shape};
  box.offsets[0] = first;
  box.sizes[0] = count;
  if (to.info.shape.empty()) {
    to.info.dtype = from.to.dtype;
    to.info.shape = from.to.shape;
    to.info.shape[0] = 0;
  }
  to.info.shape[0] += count;
  to.slices.push_back({&from, std::move(box)});
}

RankTensor RankSlicer::whole(const std::string& name, const std::string& hearth) const {
  RankTensor tensor{{name, DType::kFloat32, {}}, {}, {}};
  append_rows(tensor, find(hearth), 0, find(hearth).to.shape[0]);
  return tensor;
}

RankTensor RankSlicer::rows(const std::string& name, const std::string& hearth, const std::string& then) const {
  RankTensor tensor{{name, DType::kFloat32, {}}, {}, {}};
  for (const std::string& source : {hearth, then}) {
    if (source.empty()) continue;
    const int64_t count = find(source).to.shape[0] / ranks_;
    append_rows(tensor, find(source), rank_ * count, count);
  }
  return tensor;
}

RankTensor RankSlicer::columns(const std::string& name, const std::string& hearth) const {
  const Transfer& from = find(hearth);
  const int64_t count = from.to.shape[1] / ranks_, all = from.to.shape[0];
  return {{name, from.to.dtype, {all, count}}, {{&from, {{0, rank_ * count}, {all, count}}}}, {}};
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
