// SPDX-License-Identifier: Apache-2.0
// A trace of some steps of one rank, for Perfetto (ui.perfetto.dev) and chrome://tracing: Chrome's trace events as
// JSON, in gzip. The layout is PyTorch's profiler's: "traceEvents" with complete events ("ph": "X") and names of
// processes and threads ("M"), "ts" and "dur" in microseconds, "baseTimeNanoseconds", "distributedInfo". A process is a
// rank. Source: "Trace Event Format" of the Chromium project.
#pragma once

#include <cstdint>
#include <string>

#include "base/file.h"
#include "trace/spans.h"

namespace hearth::metrics {

struct TraceFacts {
  int64_t rank = 0, ranks = 1;
  int64_t first_step = 0, last_step = 0;
};

// The trace as JSON. "ts" counts from "baseTimeNanoseconds", the beginning of the day (UTC): the traces of all ranks
// have one time axis.
std::string trace_json(const trace::SpanRecorder::Window& window, const TraceFacts& facts);

// FOLDER/iteration_10/rank0_trace.json.gz: torchtitan's names, and ".gz".
Path trace_file(const Path& folder, int64_t step, int64_t rank);

// `text` as a gzip file, whole or not there. Makes its folder. Throws an Error of base/file.h.
void write_gzip(const Path& file, const std::string& text);

}  // namespace hearth::metrics
