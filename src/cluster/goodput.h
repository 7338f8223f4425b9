// SPDX-License-Identifier: Apache-2.0
// How much of the time that the scheduler gave to a run went into steps that stay: goodput. The rest is starts, saves,
// validation, and steps that a restart computed again.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cluster/starts.h"
#include "metrics/record.h"

namespace hearth::cluster {

struct Goodput {
  double allocated_s = 0;  // sum over all jobs, from a job's first start to its end
  double useful_s = 0;     // time of the steps that stay and that ended in a job; at most allocated_s
  int64_t starts = 0;      // starts of jobs
  double share() const { return allocated_s > 0 ? useful_s / allocated_s : 0; }
};

// From a run's events and the records of its steps, each step once (metrics::read_metrics). A start without an end, as
// after the death of a node, lasts until the next start: nothing says when its allocation ended. If it is the newest
// event, it lasts until `now_s`, in seconds since 1970, or until the last step if the run is not `running`. Events have
// whole seconds.
Goodput goodput_of(const std::vector<StartEvent>& events, std::span<const metrics::StepRecord> records, bool running,
                   double now_s);

// The seconds since 1970 of "2026-01-31T23:59:59Z"; -1 if the text is not such a time.
double seconds_of_time(const std::string& text);

}  // namespace hearth::cluster
