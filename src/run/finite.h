// SPDX-License-Identifier: Apache-2.0
// Checks that weights from another source are finite. Without this check a NaN in them would only show as a NaN loss.
#pragma once

#include <vector>

#include "base/file.h"
#include "checkpoint/load.h"
#include "parallel/sharded_weights.h"
#include "plan/parameters.h"

namespace hearth::run {

// Throws damaged() if this rank has weights with a NaN or an infinity. The error names them and `from`. Local.
void check_finite(const parallel::ShardedWeights& weights, const Path& from);

// The same for a checkpoint, before the weights exist. Reads every parameter of the plan that is in the checkpoint and
// not in `skip` (empty: skip nothing), some megabytes at a time. Does not check shapes.
void check_finite(checkpoint::Reader& reader, const plan::ParameterPlan& plan, const std::vector<bool>& skip);

}  // namespace hearth::run
