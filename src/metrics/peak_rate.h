// SPDX-License-Identifier: Apache-2.0
// The rate that counts as an mfu of 1: the machine's rate of matrix products, timed at the start, perhaps beside other
// programs.
#pragma once

#include <functional>

namespace hearth::metrics {

// A step cannot be faster than its matrix products. So a step above the rate shows that they were timed on a busy
// machine, and they are timed again. If they are still slower, or cannot be timed while other ranks compute, the step's
// own rate is the peak from then on. So a share is at most 1. Earlier shares are not changed.
class PeakRate {
 public:
  // `flops_per_s`: as timed at the start, above 0. `time_again` times the rate again and returns it; empty: it cannot
  // be timed.
  explicit PeakRate(double flops_per_s, std::function<double()> time_again = {});

  // The rate's share of the peak, above 0 and at most 1. May time the products again, which costs that time once.
  double share(double step_flops_per_s);

  double flops_per_s() const { return flops_per_s_; }

 private:
  double flops_per_s_;
  std::function<double()> time_again_;
};

}  // namespace hearth::metrics
