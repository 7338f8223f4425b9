// SPDX-License-Identifier: Apache-2.0
// Traces in Chrome's format, as Hearth (metrics/trace_file.h) and PyTorch's profiler write them: JSON, or JSON in gzip.
// Complete events ("ph": "X") are read, with the names of threads; others are skipped.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/file.h"

namespace hearth::report {

struct TraceEvent {
  std::string name, category;
  int64_t track;  // the thread, or a device's stream: an index of Trace::tracks
  double begin_us, end_us;
};

struct Trace {
  Path file;
  int64_t rank = 0, ranks = 1;
  std::vector<std::string> tracks;  // "pid/tid", or the thread's name
  std::vector<TraceEvent> events;   // in the order of the file
};

// Throws damaged() for a file that is not JSON or has an event without numbers, and user_error for one without complete
// events.
Trace read_trace(const Path& file);

// `given` itself if it is a file. If `given` is a folder: its traces, by rank; else the traces in its newest
// iteration_N; else both in the run's profiling.save_traces_folder. Throws user_error if there is no trace.
std::vector<Path> trace_files(const Path& given);

}  // namespace hearth::report
