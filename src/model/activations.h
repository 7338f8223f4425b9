// The activations of one micro-batch: the buffers of plan/activations.h as tensors over one arena, allocated once.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "base/dtype.h"
#include "ops/tensor.h"
#include "plan/activations.h"

namespace hearth::model {

// What every part of the model is told: the sizes, where its inputs and outputs lie, and the rotation table.
class Activations {
 public:
  Activations(const plan::ModelShape& shape, int64_t B, int64_t S, DType dtype, int64_t loss_chunk_tokens,
              bool training);

  // The buffer's shape is in plan/activations.h. `layer` for those kept per layer.
  const at::Tensor& operator()(plan::Activation which, int64_t layer = 0) const {
    return tensors_[static_cast<size_t>(which)][static_cast<size_t>(layer)];
  }

  const plan::ModelShape shape;
  const int64_t B, S;
  const at::Tensor rope_SK;  // ops::rope_table of positions 0..S-1

 private:
  const plan::ActivationPlan plan_;
  ops::Arena arena_;
  std::vector<std::vector<at::Tensor>> tensors_;
};

}  // namespace hearth::model
