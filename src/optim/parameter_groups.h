// What of the optimizer's settings differs from parameter to parameter: decay and learning rate.
#pragma once

#include <vector>

#include "config/config.h"
#include "plan/parameters.h"

namespace hearth::optim {

struct ParameterSettings {
  double lr_factor = 1;     // of the step's learning rate
  double weight_decay = 0;  // per learning rate
};

// For each of plan.parameters. optimizer.weight_decay_on says what decays, and the first [[optimizer.group]] whose
// pattern (plan/name_pattern.h) matches a parameter has the last word. Throws user_error for a pattern
// that matches no parameter, or none that is left by the groups above it.
std::vector<ParameterSettings> parameter_settings(const config::Optimizer& config, const plan::ParameterPlan& plan);

}  // namespace hearth::optim
