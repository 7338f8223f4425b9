// SPDX-License-Identifier: Apache-2.0
// The optimizer's settings that differ between parameters: decay and learning rate.
#pragma once

#include <vector>

#include "config/config.h"
#include "plan/parameters.h"

namespace hearth::plan {

struct ParameterSettings {
  double lr_factor = 1;     // factor on the step's learning rate
  double weight_decay = 0;  // a step decays by lr * weight_decay
};

// The settings of each of plan.parameters. optimizer.weight_decay_on determines the decay. The first
// [[optimizer.group]] whose pattern (plan/name_pattern.h) matches a parameter overrides it. Throws user_error for a
// pattern that matches no parameter, or only parameters that earlier groups match.
std::vector<ParameterSettings> parameter_settings(const config::Optimizer& config, const ParameterPlan& plan);

}  // namespace hearth::plan
