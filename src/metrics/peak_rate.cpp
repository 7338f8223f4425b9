// SPDX-License-Identifier: Apache-2.0
#include "metrics/peak_rate.h"

#include <algorithm>
#include <utility>

namespace hearth::metrics {

PeakRate::PeakRate(double flops_per_s, std::function<double()> time_again)
    : flops_per_s_(flops_per_s), time_again_(std::move(time_again)) {}

double PeakRate::share(double step_flops_per_s) {
  if (step_flops_per_s > flops_per_s_ && time_again_) flops_per_s_ = std::max(flops_per_s_, time_again_());
  flops_per_s_ = std::max(flops_per_s_, step_flops_per_s);
  return step_flops_per_s / flops_per_s_;
}

}  // namespace hearth::metrics
