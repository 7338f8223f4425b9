// SPDX-License-Identifier: Apache-2.0
// Where the time of a trace went. This is arithmetic on intervals.
//
// The self time of an event is its length without the events inside of it on its thread. If a trace has kernels of a
// GPU, only what ran on the GPU counts, and waits of the host do not.
//
// Communication is the time in which any collective or transfer runs. Communication during which nothing is computed is
// exposed: without it a step would be that much shorter. Hearth's events have categories (trace/spans.h). In PyTorch's
// traces communication has names like "gloo:all_reduce" on the host, and "ncclDevKernel..." on a GPU.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "report/trace.h"

namespace hearth::report {

// The calls of one name, and their time.
struct TraceTime {
  std::string name;
  int64_t calls = 0;
  double us = 0;
};

struct TraceCosts {
  int64_t rank = 0, ranks = 1;
  int64_t steps = 0;    // number of steps in the trace
  double total_us = 0;  // from the first step's beginning to the last step's end; from the first event to the
                        // last one on a GPU, and without steps
  // Self times, the largest first. Names are without the number of a step or layer, and a kernel's without namespaces
  // and arguments.
  std::vector<TraceTime> costs;
  // The parts of the steps in Hearth's traces, such as "forward", "validation" and "checkpoint", with everything that
  // happens in them; the largest first. A phase inside another one, such as the forward of a validation, counts as part
  // of the outer phase. Phases of different threads may overlap.
  std::vector<TraceTime> phases;
  double computation_us = 0;  // time in which something is computed
  double communication_us = 0, exposed_us = 0, data_wait_us = 0;
};

TraceCosts trace_costs(const Trace& trace);

// The `largest` costs and the phases, as means over the ranks, and a line for each rank.
std::string format_trace_costs(const std::vector<TraceCosts>& ranks, int64_t largest);
std::string trace_costs_json(const std::vector<TraceCosts>& ranks);

}  // namespace hearth::report
