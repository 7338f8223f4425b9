// SPDX-License-Identifier: Apache-2.0
#include "train/guard.h"

#include <fmt/format.h>

#include <cmath>

namespace hearth::train {

using config::Policy;

namespace {

kernels::Reaction reaction(Policy policy) {
  switch (policy) {
    case Policy::kOff:
      return kernels::Reaction::kApply;
    case Policy::kSkip:
      return kernels::Reaction::kSkip;
    case Policy::kStop:
    case Policy::kRewind:
      break;
  }
  return kernels::Reaction::kHold;
}

void push(std::vector<double>& window, double value, int64_t size) {
  window.push_back(value);
  while (static_cast<int64_t>(window.size()) > size) window.erase(window.begin());
}

}  // namespace

Verdict Guard::verdict_of(Policy policy) const {
  switch (policy) {
    case Policy::kOff:
      return Verdict::kApply;
    case Policy::kSkip:
      return health_.skipped_in_a_row < config_.skip_limit ? Verdict::kSkip : Verdict::kStop;
    case Policy::kRewind:
      return health_.rewinds < config_.rewind_limit ? Verdict::kRewind : Verdict::kStop;
    case Policy::kStop:
      break;
  }
  return Verdict::kStop;
}

Judgement Guard::judged(Policy policy, const char* kind, std::string reason) const {
  const Verdict verdict = verdict_of(policy);
  if (verdict == Verdict::kStop && policy == Policy::kSkip)
    reason += fmt::format("; numerics.skip_limit = {} updates in a row were left out", config_.skip_limit);
  if (verdict == Verdict::kStop && policy == Policy::kRewind)
    reason += fmt::format("; the run has gone back numerics.rewind_limit = {} times", config_.rewind_limit);
  return {verdict, kind, std::move(reason)};
}

ops::GuardRules Guard::rules() const {
  return {.on_nan = reaction(config_.nan_policy),
          .on_spike = reaction(config_.spike_policy),
          .skip_limit = config_.skip_limit,
          .spike_deviations = config_.spike_deviations,
          .window = config_.spike_policy == Policy::kOff ? 0 : config_.spike_window};
}

ops::GuardState Guard::state(int64_t t) const {
  return {health_.losses, health_.grad_norms, health_.skipped_in_a_row, t};
}

Judgement Guard::judge(const StepResult& step) const {
  if (!step.counted) return judged(Policy::kSkip, "no_labels", "no label counts");
  if (!std::isfinite(step.loss) || !std::isfinite(step.grad_norm))
    return judged(config_.nan_policy, "nan",
                  fmt::format("the loss is {}, the gradient norm is {}", step.loss, step.grad_norm));
  const struct {
    const char* name;
    double value, deviations;
  } measured[] = {{"the loss", step.loss, step.loss_deviations},
                  {"the gradient's norm", step.grad_norm, step.norm_deviations}};
  for (const auto& m : measured) {
    if (config_.spike_policy != Policy::kOff && m.deviations > config_.spike_deviations)
      return judged(config_.spike_policy, "spike",
                    fmt::format("{} is {:.6g}, {:.1f} standard deviations above the {} steps before it", m.name,
                                m.value, m.deviations, health_.losses.size()));
  }
  return {};
}

void Guard::applied(const StepResult& step) {
  health_.skipped_in_a_row = 0;
  if (config_.spike_policy == Policy::kOff) {
    health_.losses.clear();
    health_.grad_norms.clear();
    return;
  }
  push(health_.losses, step.loss, config_.spike_window);
  push(health_.grad_norms, step.grad_norm, config_.spike_window);
}

void Guard::skipped() {
  ++health_.skipped;
  ++health_.skipped_in_a_row;
}

void Guard::rewound(const run::Health& saved) {
  const int64_t rewinds = health_.rewinds + 1;
  health_ = saved;
  health_.rewinds = rewinds;
}

}  // namespace hearth::train
