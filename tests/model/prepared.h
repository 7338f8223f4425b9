// SPDX-License-Identifier: Apache-2.0
// What tests of a whole model prepare: random weights, tokens and labels, which are also written for an oracle.
#pragma once

#include <memory>

#include "local_weights.h"

namespace hearth::model {

inline constexpr int64_t B = 2, S = 29;

struct Prepared {
  plan::ModelShape shape;
  plan::ParameterPlan plan;
  std::unique_ptr<test::LocalWeights> weights;
  at::Tensor tokens, labels;  // [B * S]
};

}  // namespace hearth::model
