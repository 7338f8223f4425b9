// SPDX-License-Identifier: Apache-2.0
// The state of a training at the end of a step, as the pieces that a checkpoint stores.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "mesh/tensor_box.h"
#include "ops/tensor.h"
#include "parallel/sharded_weights.h"

namespace hearth::run {

class Snapshot {
 public:
  // kWeights: pieces are the weights' own memory if that is on the host, and are valid until the weights change. On a
  // CPU this costs no memory, but the training must wait. kCopy: pieces are copies. Their memory is allocated here
  // (pinned if weights are on a GPU) and used again by each take(). Borrows `weights`.
  enum class Memory { kWeights, kCopy };
  Snapshot(const parallel::ShardedWeights& weights, Memory memory);

  // Takes the present state. `updates`: how many updates the optimizer has made. Local.
  void take(int64_t updates);
  // This rank's pieces of the last take().
  std::span<const mesh::TensorPiece> pieces() const { return pieces_; }
  // The memory of the copies: plan::snapshot_bytes() for the rank that has most.
  int64_t memory_bytes() const { return copies_ ? copies_->used() : 0; }

 private:
  const parallel::ShardedWeights& weights_;
  std::optional<ops::Arena> copies_;
  std::vector<at::Tensor> values_;                // the memory of pieces_; views of copies_ if pieces are copied
  std::vector<std::array<std::byte, 4>> counts_;  // number of updates, for each parameter
  std::vector<mesh::TensorPiece> pieces_;
};

}  // namespace hearth::run
