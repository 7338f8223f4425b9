// SPDX-License-Identifier: Apache-2.0
// What a run folder says besides its curves, for a page: samples, scores, the plan and the mixture of sources. Damage
// becomes a note on the page, and never an error.
#pragma once

#include <optional>

#include "base/file.h"
#include "checkpoint/manifest.h"
#include "config/config.h"
#include "report/run_page.h"

namespace hearth::report {

// Thins out a long run's samples, which are in the order of steps: kMostSamples texts stay, or kMostRasters recordings:
// the last ones, and an even choice of earlier steps.
inline constexpr size_t kMostSamples = 400, kMostRasters = 60;
void thin_out(std::vector<metrics::SampleText>& samples);

// RUN/scores.jsonl: a line {"step": N, "name": "arc_easy", "value": 0.25} for each score of a checkpoint. The last one
// of a step and name counts.
void add_scores(PageRun& run, const Path& scores_file);

// RUN/plan.json.
void add_plan(PageRun& run, const Path& plan_file);

// Planned shares are the configuration's weights. Realised ones count the sequences of the recorded steps by the
// mixture's rule in the checkpoint `manifest`. Steps after the checkpoint are counted with its last weights.
void add_mixture(PageRun& run, const config::RunConfig& config, const std::optional<checkpoint::Manifest>& manifest);

}  // namespace hearth::report
