// Compares tensors with the parameters that a model has.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "config/config.h"
#include "mesh/tensor_box.h"

namespace hearth::convert {

// What keeps `tensors`, under Hearth's names, from being the model's weights: a line for each parameter that is missing
// or has another shape or no floating-point type, and for each tensor that is no parameter. Training state is no
// weight, and "model." before a name does not count.
std::vector<std::string> weight_problems(const config::Model& model, std::span<const mesh::TensorInfo> tensors);

}  // namespace hearth::convert
