// SPDX-License-Identifier: Apache-2.0
// Small parameter plans, for tests of how weights are sharded.
#pragma once

#include "config/config.h"
#include "plan/parameters.h"

namespace hearth::test {

// Whole, units have 896, 3,808, 3,808 and 928 elements: 3, 4 or 5 ranks leave shorter slices at the end. Some of these
// end within a parameter, others within padding.
inline plan::ParameterPlan small_plan(bool tied = false, plan::TensorPart part = {}) {
  config::Model model;
  model.dim = 24;
  model.n_layers = 2;
  model.n_heads = 4;
  model.n_kv_heads = 2;
  model.hidden_dim = 28;
  model.enable_weight_tying = tied;
  return plan::parameter_plan(plan::model_shape(model, 37), part);
}

// The last unit has 16 elements: with two ranks or more, only the first owns any of it.
inline plan::ParameterPlan tiny_plan(int64_t layers = 1) {
  config::Model model;
  model.dim = 8;
  model.n_layers = layers;
  model.n_heads = 2;
  model.hidden_dim = 12;
  model.enable_weight_tying = true;
  return plan::parameter_plan(plan::model_shape(model, 5));
}

}  // namespace hearth::test
