// SPDX-License-Identifier: Apache-2.0
// The model's access to its weights. It hides how ranks share them, so the model is written for one device.
// parallel/sharded_weights gathers a unit before its use and reduces its gradient afterwards. plan/parameters.h defines
// the units. The first three calls and gradient_ready are Collective over dp, where ranks share weights.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace hearth::model {

// The gradient of a unit while micro-batches add to it.
struct UnitGradient {
  at::Tensor whole;  // the flat buffer, [unit.numel]
  // For each of the unit's parameters: whether the elements are still undefined. The code that computes the first part
  // of such a gradient must write all of it, in place of adding, and clear the flag. Null: all elements are defined.
  std::vector<bool>* unwritten = nullptr;
};

class Weights {
 public:
  virtual ~Weights() = default;
  // The whole flat buffer of a unit, [unit.numel], in the compute dtype; valid until its release. Waits for the unit if
  // it is not there yet.
  virtual at::Tensor gather(int64_t unit) = 0;
  // Begins to gather the unit that is needed next, and does not wait: communication then runs during computation.
  virtual void prefetch(int64_t unit) = 0;
  // Tells that the unit's weights are not needed until its next gather. One release is enough for any number of
  // gathers.
  virtual void release(int64_t unit) = 0;
  // The buffer to which the unit's gradient is added, [unit.numel]; valid until gradient_ready. Undefined for
  // inference.
  virtual at::Tensor gradient(int64_t unit) = 0;
  // The same for a caller that obeys `unwritten`. It saves setting matrices to zero that a product writes anyway.
  virtual UnitGradient gradient_to_write(int64_t unit) { return {gradient(unit)}; }
  // Called when backward has finished with a unit for this micro-batch. Gradients that are still unwritten are zero.
  // The implementation may then reduce the gradient over ranks while the caller continues.
  virtual void gradient_ready(int64_t unit) = 0;
};

}  // namespace hearth::model
