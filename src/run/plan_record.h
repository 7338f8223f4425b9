// SPDX-License-Identifier: Apache-2.0
// RUN/plan.json: what was expected of a run at its newest start, for `hearth report`:
//   {"tokens_per_second", "step_s", "memory_bytes", "memory_items": [{"name", "bytes"}, ...], "before_bytes"}
// memory_bytes is a rank's tensors, and before_bytes the process's resident set before it has tensors (0 on a GPU).
// Compare their sum with the peak in metrics.jsonl.
#pragma once

#include <string>

#include "run/run.h"

namespace hearth::run {

// The calling rank's record. Call it before the training's tensors are made.
std::string plan_record(const Run& run);

}  // namespace hearth::run
