// This rank's part of each parameter, as flat ranges with their memory. Checkpoints save and load these pieces. Over
// the ranks of a replica, every element of every parameter is in exactly one piece, for any number of ranks. Padding of
// the flat buffers is in no piece.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "parallel/sharded_weights.h"

namespace hearth::parallel {

// Elements [begin, end) of the row-major tensor `name` of global `shape`. `values` is memory of ShardedWeights, on its
// device, and not a copy.
struct ShardPiece {
  std::string name;
  DType dtype;
  std::vector<int64_t> shape;
  int64_t begin, end;
  at::Tensor values;  // [end - begin], contiguous
};

// Replicas of HSDP have the same pieces. Each loads all of its pieces; for saving, they take the parameters in turn.
enum class PiecesFor { kLoading, kSaving };

// Pieces of parameters, under the names of plan/tensor_names.h, in disk order. Parameters without elements on this rank
// are left out. After writing to the values, call weights.masters_changed(). Local.
std::vector<ShardPiece> parameter_pieces(const ShardedWeights& weights, PiecesFor use);

// Pieces of the optimizer's state, for each trained parameter two moments or one momentum, under the names of
// plan/tensor_names.h. Training only. Local.
std::vector<ShardPiece> optimizer_pieces(const ShardedWeights& weights, PiecesFor use);

}  // namespace hearth::parallel
