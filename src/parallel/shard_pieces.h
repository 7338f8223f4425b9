// SPDX-License-Identifier: Apache-2.0
// This rank's part of each parameter, as boxes with their memory. Checkpoints save and load these pieces. Over the
// ranks of a replica, every element of every parameter is in exactly one piece that is saved, for any layout of ranks.
// Padding of the flat buffers is in no piece.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "mesh/tensor_box.h"
#include "parallel/sharded_weights.h"

namespace hearth::parallel {

// A box of the tensor `name` of global `shape`. `values` is memory of ShardedWeights, on its device, and not a copy.
// A shard is flat, so a parameter may take several boxes (mesh::boxes_of_flat_range).
struct ShardPiece {
  std::string name;
  DType dtype;
  std::vector<int64_t> shape;
  mesh::Box box;
  at::Tensor values;  // [box.numel()], contiguous, row-major over the box
};

// Replicas of HSDP have the same pieces. Each loads all of its pieces; for saving, they take the parameters in turn.
// If the ranks that share the layers all have a whole parameter, the first of them saves it.
enum class PiecesFor { kLoading, kSaving };

// Pieces of parameters, under the names of plan/tensor_names.h, in disk order. Parameters without elements on this rank
// are left out. After writing to the values, call weights.masters_changed(). Local.
std::vector<ShardPiece> parameter_pieces(const ShardedWeights& weights, PiecesFor use);

// Pieces of the optimizer's state, for each trained parameter two moments or one momentum, under the names of
// plan/tensor_names.h. Training only. Local.
std::vector<ShardPiece> optimizer_pieces(const ShardedWeights& weights, PiecesFor use);

}  // namespace hearth::parallel
