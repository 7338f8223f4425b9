// SPDX-License-Identifier: Apache-2.0
// `hearth score`: the validation loss and multiple-choice tasks over the checkpoints of a run. Values are what `hearth
// eval` gives for each checkpoint; they go to RUN/scores.jsonl (metrics/scores.h), which `hearth report` reads.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "config/options.h"
#include "metrics/scores.h"

namespace hearth::infer {

// A line for each step, a column for each name. Empty places were not measured.
std::string score_table(const std::vector<metrics::Score>& scores);

// Measures what is not in the file yet, from the oldest checkpoint to the newest. Each measure's scores are on disk
// before the next one begins.
ExitCode run_score(const config::ScoreOptions& options);

}  // namespace hearth::infer
