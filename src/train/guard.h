// SPDX-License-Identifier: Apache-2.0
// What a training does about a bad step: one without counted labels, with a NaN or infinite loss or gradient, or with
// values far above earlier steps' values. It applies the update, skips it, goes back to a checkpoint, or stops. The
// decision uses only values that were reduced over all ranks, so all ranks agree. The device decides whether the update
// is made (kernels/step_decision.h); this class decides the rest.
//
// A spike is a loss or a gradient norm more than numerics.spike_deviations standard deviations above the mean of the
// last numerics.spike_window applied steps. OLMo-core's SkipStepOptimizer and llm.c's outlier detector do the same.
// Until half of that window is filled, nothing is a spike. Skipped steps do not enter the window.
#pragma once

#include <string>

#include "config/config.h"
#include "ops/step_decision.h"
#include "run/health.h"
#include "train/step.h"

namespace hearth::train {

enum class Verdict { kApply, kSkip, kRewind, kStop };

struct Judgement {
  Verdict verdict = Verdict::kApply;
  std::string kind;    // "no_labels", "nan" or "spike"; empty: a good step
  std::string reason;  // for display: "the loss is nan"
};

class Guard {
 public:
  Guard(const config::Numerics& config, run::Health health) : config_(config), health_(std::move(health)) {}

  // The rules of the device's decision.
  ops::GuardRules rules() const;
  // The state at the start of the device's decisions. `t`: number of updates of the optimizer so far.
  ops::GuardState state(int64_t t) const;

  // Judges a step. If a policy's limit is reached (numerics.skip_limit in a row, numerics.rewind_limit in total), the
  // verdict is kStop. The verdict is kApply if and only if the device applied the update.
  Judgement judge(const StepResult& step) const;

  void applied(const StepResult& step);
  void skipped();
  // Tells the guard that the training went back to a checkpoint. `saved`: the checkpoint's health.
  void rewound(const run::Health& saved);

  const run::Health& health() const { return health_; }

 private:
  Verdict verdict_of(config::Policy policy) const;
  Judgement judged(config::Policy policy, const char* kind, std::string reason) const;

  config::Numerics config_;
  run::Health health_;
};

}  // namespace hearth::train
