// This rank's part of each parameter, as flat ranges and their memory. Checkpoints save and load these pieces. Over all
// ranks of a group every element of every parameter is in exactly one piece, for any number of ranks. No piece contains
// padding of the flat buffers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "parallel/sharded_weights.h"

namespace hearth::parallel {

// Elements [begin, end) of the row-major tensor `name` of global `shape`. `values` is the live memory of
// ShardedWeights, on its device.
struct ShardPiece {
  std::string name;
  DType dtype;
  std::vector<int64_t> shape;
  int64_t begin, end;
  at::Tensor values;  // [end - begin], contiguous
};

// Parameters under the names of plan/tensor_names.h, in disk order; those of which this rank owns nothing are left out.
// After writing to the values, call weights.masters_changed(). Local.
std::vector<ShardPiece> parameter_pieces(const ShardedWeights& weights);

// Moments, two of each parameter that is trained, under the names of plan/tensor_names.h. Training only. Local.
std::vector<ShardPiece> optimizer_pieces(const ShardedWeights& weights);

}  // namespace hearth::parallel
