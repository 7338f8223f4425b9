// What a run folder says about its training, for a page of it.
#pragma once

#include <string>
#include <vector>

#include "base/file.h"
#include "report/run_page.h"

namespace hearth::report {

// Reads `metrics_file` and the files next to it. What is missing or damaged becomes a note of the page, and never an
// error.
PageRun page_run(const std::string& name, const Path& metrics_file);

// The keys of a run file with their defaults.
std::vector<NamedText> default_configuration();

}  // namespace hearth::report
