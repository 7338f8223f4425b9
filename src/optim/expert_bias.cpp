// SPDX-License-Identifier: Apache-2.0
#include "optim/expert_bias.h"

#include "ops/moe/moe.h"
#include "ops/tensor.h"
#include "plan/name_pattern.h"

namespace hearth::optim {

ExpertBias::ExpertBias(double rate, const std::vector<std::string>& freeze, parallel::ShardedWeights& weights)
    : weights_(weights), rate_(rate) {
  const plan::ParameterPlan& plan = weights.plan();
  const std::vector<bool> frozen = plan::matching_parameters(freeze, plan, "checkpoint.freeze");
  for (size_t layer = 0; layer < plan.layers.size(); ++layer) {
    const plan::Unit& unit = plan.units[static_cast<size_t>(plan.layers[layer].block)];
    for (int64_t index = unit.first_parameter; index < unit.first_parameter + unit.num_parameters; ++index) {
      const auto i = static_cast<size_t>(index);
      if (plan.parameters[i].is_balanced && !frozen[i]) biases_.push_back({index, static_cast<int64_t>(layer)});
    }
  }
}

void ExpertBias::step(const at::Tensor& loads_LE, const at::Tensor& decision) {
  if (rate_ == 0) return;
  for (const Bias& bias : biases_) {
    const parallel::ShardedWeights::Owned owned = weights_.owned(bias.index);
    if (owned.numel() == 0) continue;
    ops::balance_bias(owned.master, loads_LE.select(0, bias.layer), owned.begin, rate_, decision);
    if (owned.copy.defined()) ops::copy_(owned.copy, owned.master);
  }
}

}  // namespace hearth::optim
