// SPDX-License-Identifier: Apache-2.0
// A picture of the losses over steps, as SVG that any browser shows.
#pragma once

#include <string>
#include <vector>

#include "metrics/record.h"

namespace hearth::report {

// One training: the losses of its metrics.jsonl, and its name in the legend.
struct Curve {
  std::string name;
  std::vector<metrics::StepRecord> records;
};

// The most points drawn for a training; with more losses, each point is the mean of neighbours.
inline constexpr size_t kMostPoints = 1000;

// Each curve has a polyline of class "training", in nats per token, and one of class "validation" if it was measured.
// The axes are linear. The loss's axis ends where 99 % of the points are below, or at the first validation loss if that
// is higher. Throws user_error if no curve has a loss.
std::string loss_curves_svg(const std::vector<Curve>& curves, const std::string& title);

}  // namespace hearth::report
