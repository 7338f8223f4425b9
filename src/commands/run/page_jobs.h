// The jobs of a run on its page.
#pragma once

#include "base/file.h"
#include "report/run_page.h"

namespace hearth::commands {

// Reads RUN/starts.jsonl, if it is there. A resume of `run.history` gets the reason for which the ranks before it
// ended.
void add_jobs(report::PageRun& run, const Path& folder);

}  // namespace hearth::commands
