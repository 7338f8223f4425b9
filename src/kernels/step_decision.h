// SPDX-License-Identifier: Apache-2.0
// Decides about a step's summed gradient: the loss, the norm, and whether the update is made. One thread of the GPU
// decides, so the GPU need not wait for the host; on a CPU it is a plain call. The meaning of the policies is in
// train/guard.h.
#pragma once

#include <cmath>
#include <cstdint>

#if defined(__CUDACC__) || defined(__HIPCC__)
#define HEARTH_HOST_DEVICE __host__ __device__
#else
#define HEARTH_HOST_DEVICE
#endif

namespace hearth::kernels {

// What a policy does on the device. kHold: no update is made until the host has stopped or gone back to a checkpoint.
enum class Reaction : int32_t { kApply, kSkip, kHold };

// A ring of the last applied steps: `count` values were pushed, the last `size` of them are kept.
struct StepWindow {
  double* values;
  int64_t size, count;
};

// The guard's state in device memory, for a whole training.
struct StepGuard {
  Reaction on_nan, on_spike;
  int64_t skip_limit;
  double spike_deviations;
  StepWindow losses, grad_norms;
  int64_t skipped_in_a_row;
  int64_t t;      // updates made
  int32_t holds;  // a step was held: no update is applied until the host releases it
};

// The outcome of a step.
struct Decision {
  double loss, z_loss, grad_norm;
  double loss_deviations, norm_deviations;  // standard deviations above the window's mean; 0: the window is too short
  double gradient_scale;                    // clipping
  int64_t t;                                // the update's number, from 1
  int32_t apply;                            // 0: the update is not made
};

// The sums over A micro-batches of sums_A2[a][k], k = 0 and 1. Each `paired` neighbours, a power of two, are added in
// pairs, and these sums in sequence, in the order of their gradients (plan/sharding.h).
HEARTH_HOST_DEVICE inline void total_losses(double* totals_2, const double* sums_A2, int64_t A, int64_t paired) {
  for (int k = 0; k < 2; ++k) {
    double partial[64] = {};
    totals_2[k] = 0;
    for (int64_t a = 0; a < A; ++a) {
      double sum = sums_A2[2 * a + k];
      int digit = 0;
      for (int64_t count = a % paired + 1; count % 2 == 0; count /= 2) sum = partial[digit++] + sum;
      partial[digit] = sum;
      if ((a + 1) % paired == 0) totals_2[k] += sum;
    }
  }
}

// The number of standard deviations from the window's mean to `value`; 0 until half of the window is filled.
HEARTH_HOST_DEVICE inline double deviations(double value, const StepWindow& window) {
  const int64_t n = window.count < window.size ? window.count : window.size;
  if (window.size == 0 || n < (window.size + 1) / 2) return 0;
  double mean = 0, squares = 0;
  for (int64_t i = 0; i < n; ++i) mean += window.values[i] / static_cast<double>(n);
  for (int64_t i = 0; i < n; ++i)
    squares += (window.values[i] - mean) * (window.values[i] - mean) / static_cast<double>(n);
  return squares > 0 ? (value - mean) / std::sqrt(squares) : 0;
}

HEARTH_HOST_DEVICE inline void push(StepWindow& window, double value) {
  if (window.size > 0) window.values[window.count++ % window.size] = value;
}

// totals_2: loss and z-loss before its factor, over all ranks; grad_squares: the squared norm of the gradient. The
// scale is torch's clip_grad_norm_: max_norm / (norm + 1e-6), at most 1; max_norm 0: no clipping.
HEARTH_HOST_DEVICE inline void decide(StepGuard& guard, Decision& decision, const double* totals_2,
                                      const double* grad_squares, double z_factor, double max_norm) {
  Decision d{};
  d.loss = totals_2[0];
  d.z_loss = z_factor * totals_2[1];
  d.grad_norm = std::sqrt(*grad_squares);
  const double scale = max_norm > 0 ? max_norm / (d.grad_norm + 1e-6) : 1;
  d.gradient_scale = scale >= 1 ? 1 : scale;  // a NaN is not >= 1 and is kept
  d.loss_deviations = deviations(d.loss, guard.losses);
  d.norm_deviations = deviations(d.grad_norm, guard.grad_norms);
  // NaN - NaN and infinity - infinity are NaN.
  const bool is_number = d.loss - d.loss == 0 && d.grad_norm - d.grad_norm == 0;
  const bool is_spike = d.loss_deviations > guard.spike_deviations || d.norm_deviations > guard.spike_deviations;
  Reaction reaction = !is_number ? guard.on_nan : is_spike ? guard.on_spike : Reaction::kApply;
  if (reaction == Reaction::kSkip && guard.skipped_in_a_row >= guard.skip_limit) reaction = Reaction::kHold;
  if (reaction == Reaction::kHold) guard.holds = 1;
  d.apply = guard.holds == 0 && reaction == Reaction::kApply;
  d.t = guard.t + 1;
  if (d.apply != 0) {
    guard.t = d.t;
    guard.skipped_in_a_row = 0;
    push(guard.losses, d.loss);
    push(guard.grad_norms, d.grad_norm);
  } else {
    ++guard.skipped_in_a_row;
  }
  decision = d;
}

}  // namespace hearth::kernels
