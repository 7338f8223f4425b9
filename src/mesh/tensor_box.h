// SPDX-License-Identifier: Apache-2.0
// Tensors of a checkpoint as boxes of bytes. This folder depends on no tensor library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"

namespace hearth::mesh {

// A box of a tensor: torch's ChunkStorageMetadata. A 0-d tensor has empty offsets and sizes.
struct Box {
  std::vector<int64_t> offsets, sizes;
  bool operator==(const Box&) const = default;
  int64_t numel() const;
};

// A global tensor's name, type and shape.
struct TensorInfo {
  std::string name;  // "layers.0.attention.wq.weight", "optimizer.state.NAME.exp_avg"
  DType dtype = DType::kFloat32;
  std::vector<int64_t> shape;
  bool operator==(const TensorInfo&) const = default;
};

// A rank's piece of a tensor. The bytes are contiguous, row-major over `box`, and borrowed: they must outlive the call.
struct TensorPiece {
  TensorInfo info;
  Box box;
  std::span<const std::byte> bytes;
};

// Whether two boxes of one tensor share an element.
bool overlaps(const Box& a, const Box& b);

// The range [begin, end) of a row-major tensor's elements as the fewest boxes, in order: a flat shard is rarely one
// box.
std::vector<Box> boxes_of_flat_range(const std::vector<int64_t>& shape, int64_t begin, int64_t end);

}  // namespace hearth::mesh
