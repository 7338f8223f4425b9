// The model's access to its weights, so the model is written for one device. parallel/sharded_weights gathers a unit
// before its use and reduces its gradient afterwards. plan/parameters.h defines the units.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace hearth::model {

class Weights {
 public:
  virtual ~Weights() = default;
  // The whole flat buffer of a unit, [unit.numel], in the compute dtype; valid until the next optimizer step.
  // Collective over dp the first time in a step, then free.
  virtual at::Tensor gather(int64_t unit) = 0;
  // The buffer for the unit's gradient, [unit.numel]; zero at the start of a step. Undefined for inference.
  virtual at::Tensor gradient(int64_t unit) = 0;
  // Called when backward has finished with a unit for this micro-batch. On a step's last micro-batch, the
  // implementation reduce-scatters the gradient. Collective over dp.
  virtual void gradient_ready(int64_t unit) = 0;
};

}  // namespace hearth::model
