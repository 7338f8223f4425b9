// What a rank of tensor parallel has of a model: its tensors as parts of Hearth's, and its file of torch.save.
#pragma once

#include <string>
#include <vector>

#include "convert/rank_layout.h"
#include "convert/transfer.h"

namespace hearth::convert {

// A box of one of Hearth's tensors.
struct RankSlice {
  const Transfer* from;
  mesh::Box box;
};
// A tensor of a rank: slices, the rows of one after those of another; or values of its own.
struct RankTensor {
  mesh::TensorInfo info;
  std::vector<RankSlice> slices;
  std::vector<std::byte> values;
};

// A row's tensor of a rank. `tensors` have Hearth's names, and those of the row; they are borrowed.
RankTensor cut(const std::vector<Transfer>& tensors, const RankRow& row, const RankLayout& layout, int64_t rank);

// The infos of tensors, in their order.
std::vector<mesh::TensorInfo> infos_of(const std::vector<RankTensor>& tensors);

// Bytes of all tensors of a rank.
int64_t bytes_of(const std::vector<RankTensor>& tensors);

// Gives the bytes of a tensor to `write`, in order.
void write_tensor(checkpoint::Reader& reader, const RankTensor& tensor, Progress& progress,
                  const std::function<void(std::span<const std::byte> bytes)>& write);

// Elements [begin, end) of the tensor in row-major order. It has slices, and no values of its own.
void write_elements(checkpoint::Reader& reader, const RankTensor& tensor, int64_t begin, int64_t end,
                    Progress& progress, const std::function<void(std::span<const std::byte> bytes)>& write);

// A dict of the tensors as torch.save writes it. `key`: as TorchFileWriter has it.
void write_rank_file(const Path& path, checkpoint::Reader& reader, const std::vector<RankTensor>& tensors,
                     Progress& progress, const std::string& key = {});

}  // namespace hearth::convert
