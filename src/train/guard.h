// What a training does about a step in which no label counts, whose loss or gradient is no number, or far above those
// before it: apply it, leave its update out, go back to a checkpoint, or stop. Decided from reduced values alone, so by
// every rank alike; whether the update is made is decided on the device (kernels/step_decision.h), and here what else
// is done about it.
//
// A spike is a loss or a gradient norm more than numerics.spike_deviations standard deviations above the mean of the
// last numerics.spike_window steps that were applied; OLMo-core's SkipStepOptimizer and llm.c's outlier detector do the
// same. Until half of that window is there, nothing is a spike. Skipped steps do not enter the window.
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
  std::string kind;    // "no_labels", "nan" or "spike"; empty: no trouble
  std::string reason;  // for people: "the loss is nan"
};

class Guard {
 public:
  Guard(const config::Numerics& config, run::Health health) : config_(config), health_(std::move(health)) {}

  // The device's inputs for its decision.
  ops::GuardRules rules() const;
  // `t`: updates that the optimizer has made.
  ops::GuardState state(int64_t t) const;

  // The judgement of a step. A policy whose limit is reached (numerics.skip_limit in a row, numerics.rewind_limit in
  // all) is kStop. kApply exactly where the device applied it.
  Judgement judge(const StepResult& step) const;

  void applied(const StepResult& step);
  void skipped();
  // `saved`: of the checkpoint that the training has gone back to.
  void rewound(const run::Health& saved);

  const run::Health& health() const { return health_; }

 private:
  Verdict verdict_of(config::Policy policy) const;
  Judgement judged(config::Policy policy, const char* kind, std::string reason) const;

  config::Numerics config_;
  run::Health health_;
};

}  // namespace hearth::train
