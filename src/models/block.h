// SPDX-License-Identifier: Apache-2.0
// A block of a model: its parameters, the buffers that a micro-batch needs, and what it computes. This is their only
// definition: the planner and the model both read the program that a block writes. models/FAMILY/ has the block of a
// family.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "models/parameter_list.h"
#include "models/program.h"
#include "models/shape.h"

namespace hearth::models {

// The residual stream after a block: x, or x + branch if the next norm adds the two in its own pass over memory.
struct ResidualStream {
  Ref x, branch{};
};

class Block {
 public:
  virtual ~Block() = default;
  const std::vector<ParameterSpec>& parameters() const { return list_.specs(); }

  // The first adds the buffers that forward leaves for backward. The second adds working buffers, which all layers
  // share.
  virtual void add_kept_buffers(Program& p, int64_t layer) = 0;
  virtual void add_working_buffers(Program& p, int64_t layer) = 0;

  // Computes the stream after the block. `entry`: the buffer of the stream before the block. The block writes it if
  // `before` has a branch to add.
  virtual ResidualStream forward(Program& p, const ResidualStream& before, const Ref& entry) = 0;
  // `dstream`: the gradient of the stream after the block; becomes the gradient of the stream before it. If the program
  // is in halves, weight_gradients computes the gradients of matrices later.
  virtual void backward(Program& p, const Ref& dstream, Recompute level) = 0;
  virtual void weight_gradients(Program& p) = 0;

 protected:
  ParameterList list_;
};

// The block of a layer (ModelShape::layer).
std::unique_ptr<Block> make_block(const ModelShape& layer);

}  // namespace hearth::models
