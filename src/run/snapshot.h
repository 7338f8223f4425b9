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
  // kWeights: pieces are the memory of the weights where that is on the host, and hold only as long as these do not
  // change. kCopy: pieces are copies in memory of its own, which is allocated here (pinned where weights are on a GPU)
  // and used again by each take(). Borrows `weights`.
  enum class Memory { kWeights, kCopy };
  Snapshot(const parallel::ShardedWeights& weights, Memory memory);

  // Takes the state as it is now. `updates`: of the optimizer, in all. Local.
  void take(int64_t updates);
  // This rank's pieces of the last take().
  std::span<const mesh::TensorPiece> pieces() const { return pieces_; }
  // Its own memory: plan::snapshot_bytes() for the rank that has most.
  int64_t memory_bytes() const { return copies_ ? copies_->used() : 0; }

 private:
  const parallel::ShardedWeights& weights_;
  std::optional<ops::Arena> copies_;
  std::vector<at::Tensor> values_;                // own the memory of pieces_; of copies: views of copies_
  std::vector<std::array<std::byte, 4>> counts_;  // of updates, for each parameter
  std::vector<mesh::TensorPiece> pieces_;
};

}  // namespace hearth::run
