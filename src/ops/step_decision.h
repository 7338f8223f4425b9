// SPDX-License-Identifier: Apache-2.0
// Decides whether a step's update is made, on the device of its sums (kernels/step_decision.h): the host need not wait
// for a GPU within a step. On a CPU the same function runs at once.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "kernels/step_decision.h"

namespace hearth::ops {

// The guard's rules for steps; the meaning of the policies is in train/guard.h.
struct GuardRules {
  kernels::Reaction on_nan = kernels::Reaction::kHold, on_spike = kernels::Reaction::kApply;
  int64_t skip_limit = 0;
  double spike_deviations = 0;
  int64_t window = 0;  // steps in a spike's comparison; 0: nothing is a spike
};

// The guard's state in a resumed training.
struct GuardState {
  std::vector<double> losses, grad_norms;  // of the last applied steps, oldest first
  int64_t skipped_in_a_row = 0;
  int64_t t = 0;  // updates made
};

// The guard's memory and the decision on the device.
class StepDecision {
 public:
  StepDecision(const GuardRules& rules, at::Device device);

  // Replaces the guard's memory, and releases a held step.
  void begin_from(const GuardState& state);

  // totals_2 [2] = the sums over A micro-batches, sums_A2 [A, 2], all float64. `paired` as in kernels::total_losses.
  void total(const at::Tensor& totals_2, const at::Tensor& sums_A2, int64_t paired) const;

  // Judges a step by its totals and the squared norm of its gradient, [1] float64, all summed over all ranks.
  void decide(const at::Tensor& totals_2, const at::Tensor& grad_squares_1, double z_factor, double max_norm) const;

  // The last decision, for ops::adamw: bytes on the device.
  const at::Tensor& decision() const { return decision_; }

 private:
  GuardRules rules_;
  at::Device device_;
  at::Tensor guard_, losses_, grad_norms_, decision_;  // bytes of StepGuard, [window] float64 each, bytes of Decision
};

// The bytes of a fixed decision, for updates outside a training: update number t, whole or scaled.
at::Tensor decided(int64_t t, double gradient_scale = 1, at::Device device = at::kCPU);

// Waits for a GPU.
kernels::Decision read_decision(const at::Tensor& decision);

}  // namespace hearth::ops
