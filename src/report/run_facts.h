// SPDX-License-Identifier: Apache-2.0
// What a run folder says about its training, for the run's page.
#pragma once

#include <string>
#include <vector>

#include "base/file.h"
#include "config/config.h"
#include "report/run_page.h"

namespace hearth::report {

// Reads `metrics_file` and the files next to it. Missing or damaged files become notes on the page, and never an error.
PageRun page_run(const std::string& name, const Path& metrics_file);

// Each key of a run file with its value as TOML.
std::vector<NamedText> configuration_texts(const config::RunConfig& config);

// `run` is a run folder, or its metrics.jsonl. The path is spelled as `run` is. Throws user_error if there is no file.
Path metrics_file_of(const Path& run);

}  // namespace hearth::report
