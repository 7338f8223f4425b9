// SPDX-License-Identifier: Apache-2.0
// A parameter in its unit's flat buffer: a view without a copy, of weights or of gradients.
#pragma once

#include <ATen/core/Tensor.h>

#include "plan/parameters.h"

namespace hearth::model {

// This rank's part of the parameter.
inline at::Tensor parameter_view(const at::Tensor& flat, const plan::Parameter& parameter) {
  return flat.narrow(0, parameter.offset, parameter.numel).view(parameter.part.sizes);
}

}  // namespace hearth::model
