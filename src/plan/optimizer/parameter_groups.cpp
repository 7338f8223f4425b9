// SPDX-License-Identifier: Apache-2.0
#include "plan/optimizer/parameter_groups.h"

#include "base/error_list.h"
#include "plan/name_pattern.h"

namespace hearth::plan {

std::vector<ParameterSettings> parameter_settings(const config::Optimizer& config, const ParameterPlan& plan) {
  const bool all = config.weight_decay_on == config::WeightDecayOn::kAll;
  std::vector<ParameterSettings> settings;
  for (const Parameter& p : plan.parameters)
    settings.push_back({1, all || p.shape.size() >= 2 ? config.weight_decay : 0});

  std::vector<bool> taken(settings.size());
  ErrorList errors;
  for (size_t g = 0; g < config.group.size(); ++g) {
    errors.attempt([&] {
      const config::OptimizerGroup& group = config.group[g];
      const std::string key = fmt::format("optimizer.group.{}.pattern", g);
      const std::vector<bool> matching = matching_parameters({group.pattern}, plan, key);
      bool any = false;
      for (size_t i = 0; i < settings.size(); ++i) {
        if (!matching[i] || taken[i]) continue;
        any = taken[i] = true;
        settings[i].lr_factor = group.lr_factor;
        if (group.weight_decay >= 0) settings[i].weight_decay = group.weight_decay;
      }
      if (!any)
        throw user_error(fmt::format("{}: \"{}\" matches only what groups above it match", key, group.pattern),
                         "a parameter belongs to the first group that matches it", "put the narrower pattern first")
            .about(key);
    });
  }
  errors.throw_if_any("optimizer.group");
  return settings;
}

}  // namespace hearth::plan
