// Weights from elsewhere must be finite. Without this check a NaN in them would first show as a NaN of the loss.
#pragma once

#include <vector>

#include "base/file.h"
#include "checkpoint/load.h"
#include "parallel/sharded_weights.h"
#include "plan/parameters.h"

namespace hearth::run {

// Throws damaged() naming the weights of which this rank holds a NaN or an infinity, and where they come from. Local.
void check_finite(const parallel::ShardedWeights& weights, const Path& from);

// The same of a checkpoint before there are weights to fill: reads every parameter of the plan that it has and that is
// not in `skip` (empty: none), some megabytes at a time. Shapes are not checked here.
void check_finite(checkpoint::Reader& reader, const plan::ParameterPlan& plan, const std::vector<bool>& skip);

}  // namespace hearth::run
