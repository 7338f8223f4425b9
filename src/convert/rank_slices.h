// SPDX-License-Identifier: Apache-2.0
// The tensors of a rank of tensor parallel, as parts of Hearth's tensors, and how they are written to a file.
#pragma once

#include <vector>

#include "convert/python_value.h"
#include "convert/rank_layout.h"
#include "convert/transfer.h"

namespace hearth::convert {

// A box of one of Hearth's tensors.
struct RankSlice {
  const Transfer* from;
  mesh::Box box;
};
// A rank's tensor: slices, one below the other, or values of its own.
struct RankTensor {
  mesh::TensorInfo info;
  std::vector<RankSlice> slices;
  std::vector<std::byte> values;
};

// A rank's part of the row's tensor. `tensors` have Hearth's names, include the row's sources, and are borrowed.
RankTensor cut(const std::vector<Transfer>& tensors, const RankRow& row, const RankLayout& layout, int64_t rank);

// Bytes of all tensors of a rank.
int64_t bytes_of(const std::vector<RankTensor>& tensors);

// The whole tensor, for a file.
PythonTensor python_tensor(checkpoint::Reader& reader, const RankTensor& tensor, ConvertProgress& progress);

// Gives elements [begin, end) of the tensor in row-major order. It has slices, and no values of its own.
void write_elements(checkpoint::Reader& reader, const RankTensor& tensor, int64_t begin, int64_t end,
                    ConvertProgress& progress, const ByteWriter& sink);
// Gives `numel` zeros in float32.
void write_zeros(int64_t numel, const ByteWriter& sink);

// The dict of a rank's file. It borrows all arguments.
PythonDict rank_dict(checkpoint::Reader& reader, const std::vector<RankTensor>& tensors, ConvertProgress& progress);

}  // namespace hearth::convert
