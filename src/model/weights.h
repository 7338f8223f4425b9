// The model's access to its weights. The model is written for one device: parallel/sharded_weights gathers a unit
// (plan/parameters.h) before its use and reduces its gradient afterwards.
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
  // The buffer that accumulates the unit's gradient, [unit.numel]; zero at the start of a step. Undefined for
  // inference.
  virtual at::Tensor gradient(int64_t unit) = 0;
  // Called when backward has finished with a unit for this micro-batch. On the last micro-batch of a step the
  // implementation reduce-scatters it. Collective over dp.
  virtual void gradient_ready(int64_t unit) = 0;
};

}  // namespace hearth::model
