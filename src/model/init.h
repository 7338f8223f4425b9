// SPDX-License-Identifier: Apache-2.0
// Initial weights as a function of (seed, name, position), so they do not depend on the layout of ranks: a part of a
// parameter gets the values of its place in the whole.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "plan/parameters.h"

namespace hearth::model {

// Fills this rank's slice of a unit: `slice_N` [slice.numel()], float32 or float64, contiguous. Padding becomes 0.
// Local.
void init_unit(const at::Tensor& slice_N, const plan::ParameterPlan& plan, int64_t unit, plan::Slice slice,
               uint64_t seed);

}  // namespace hearth::model
