// SPDX-License-Identifier: Apache-2.0
// The model's access to its weights, so the model is written for one device. parallel/sharded_weights gathers a unit
// before its use and reduces its gradient afterwards. plan/parameters.h defines the units. The first three calls and
// gradient_ready are Collective over dp, where ranks share weights.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace hearth::model {

class Weights {
 public:
  virtual ~Weights() = default;
  // The whole flat buffer of a unit, [unit.numel], in the compute dtype; valid until its release. Waits for the unit if
  // it is not there yet.
  virtual at::Tensor gather(int64_t unit) = 0;
  // Begins to gather a unit that is needed next, and does not wait.
  virtual void prefetch(int64_t unit) = 0;
  // The unit's weights are not needed until its next gather. Once for any number of gathers.
  virtual void release(int64_t unit) = 0;
  // The buffer to which the unit's gradient is added, [unit.numel]; valid until gradient_ready. Undefined for
  // inference.
  virtual at::Tensor gradient(int64_t unit) = 0;
  // Called when backward has finished with a unit for this micro-batch. The implementation may then reduce the gradient
  // over ranks, while the caller goes on.
  virtual void gradient_ready(int64_t unit) = 0;
};

}  // namespace hearth::model
