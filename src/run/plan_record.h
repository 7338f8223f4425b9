// SPDX-License-Identifier: Apache-2.0
// RUN/plan.json: what was expected of a run at its newest start, for `hearth report`:
//   {"tokens_per_second", "step_s", "memory_bytes", "memory_items": [{"name", "bytes"}, ...], "before_bytes"}
// memory_bytes is a rank's tensors, and before_bytes the process's resident set before them (on a CPU; else 0): the sum
// is what the peak of metrics.jsonl compares with.
#pragma once

#include <string>

#include "run/run.h"

namespace hearth::run {

// Before the training's tensors are made. It is the calling rank's.
std::string plan_record(const Run& run);

}  // namespace hearth::run
