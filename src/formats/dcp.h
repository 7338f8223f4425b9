// SPDX-License-Identifier: Apache-2.0
// `.metadata` of torch.distributed.checkpoint (DCP): the tensors, their boxes, and the place of each box. Read and
// written as torch 2.11 does; docs/checkpoint_format.md has the object graph.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "mesh/tensor_box.h"

namespace hearth::formats {

// One stored piece of a tensor: its place and the XXH3-64 of its `length` bytes (a whole torch.save stream).
struct Item {
  std::string name;  // the tensor's
  mesh::Box box;
  std::string file;  // relative to the checkpoint's folder, "__R_0.distcp"
  int64_t offset = 0, length = 0;
  uint64_t checksum = 0;
};

// A tensor and its items. Items written by PyTorch have checksum 0.
struct StoredTensor {
  mesh::TensorInfo info;
  std::vector<Item> items;
};

// An entry of a PyTorch checkpoint that is not a tensor of a supported type.
struct OtherEntry {
  std::string name;
  std::string what;  // "bytes", "tensor of torch.float8_e4m3fn"
  // The place of the value of "bytes" (formats/scalar.h). If the file's name is empty, the value is stored nowhere.
  std::string file = {};
  int64_t offset = 0, length = 0;
};

struct Metadata {
  std::vector<StoredTensor> tensors;
  std::vector<OtherEntry> others;
};

// Throws damaged() naming `origin` if a part is missing, contradictory or impossible. Afterwards every box is within
// its tensor, every item has a plain file name and a possible offset and length, and no product of sizes overflows.
Metadata parse_metadata(std::span<const std::byte> bytes, const std::string& origin);

// Entries of `others` are written only if they have a file.
std::string format_metadata(const Metadata& metadata);

// Throws damaged() unless the items' boxes cover `box` of the tensor, each element once.
void check_coverage(const StoredTensor& tensor, const mesh::Box& box, const std::string& origin);

std::string format_shape(const std::vector<int64_t>& shape);  // "[128, 64]"

}  // namespace hearth::formats
