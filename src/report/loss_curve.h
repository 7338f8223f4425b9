// A picture of how the loss fell: losses over steps, as SVG that any browser shows.
#pragma once

#include <string>
#include <vector>

#include "metrics/record.h"

namespace hearth::report {

// One training: what its metrics.jsonl says, and what the legend calls it.
struct Curve {
  std::string name;
  std::vector<metrics::Record> records;
};

// At most this many points of a training's losses are drawn; beyond it, each point is the mean of neighbours.
inline constexpr size_t kMostPoints = 1000;

// Each curve has a polyline of class "training", in nats per token, and one of class "validation" where it was
// measured. The axes are linear; the upper end of the loss's axis is what 99 % of the points stay below, or the first
// validation loss where that is higher. Throws user_error where no curve has a loss.
std::string loss_curves_svg(const std::vector<Curve>& curves, const std::string& title);

}  // namespace hearth::report
