// SPDX-License-Identifier: Apache-2.0
// The rate that mfu is a share of: that of matrix products, timed at the start, perhaps beside other programs.
#pragma once

#include <functional>

namespace hearth::metrics {

// A step cannot be faster than the products in it. So a step above the rate shows that the products were timed on a
// busy machine: they are timed again. If they are still slower, or cannot be timed while others compute, the step's own
// rate is the peak from then on. A share is therefore at most 1, and earlier ones keep the rate of their time.
class PeakRate {
 public:
  // `flops_per_s`: as timed at the start, above 0. `time_again` returns that rate as of now; empty: it cannot be timed.
  explicit PeakRate(double flops_per_s, std::function<double()> time_again = {});

  // The share of a step that computed at this rate, above 0 and at most 1.
  double share(double step_flops_per_s);

  double flops_per_s() const { return flops_per_s_; }

 private:
  double flops_per_s_;
  std::function<double()> time_again_;
};

}  // namespace hearth::metrics
