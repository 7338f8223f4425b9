// SPDX-License-Identifier: Apache-2.0
// One or several trainings as one HTML page: curves to zoom, and tables. It has its scripts and numbers inside and
// loads nothing, so that it can be mailed, or opened on a host without a network. The charts are dygraphs'
// (dygraphs.com, MIT).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "metrics/jsonl.h"

namespace hearth::report {

using NamedText = std::pair<std::string, std::string>;

using PagePoints = std::map<int64_t, double>;  // by step

// What was expected of the run at its newest start (run/plan_record.h).
struct PagePlan {
  std::optional<double> tokens_per_second{};
  std::optional<int64_t> memory_bytes{};  // a rank's tensors
  int64_t before_bytes = 0;               // the process before them
};

// A source's share of the sequences.
struct PageShare {
  std::string source;
  std::optional<double> planned{}, realised{};  // of the whole run; of the steps so far
  double sequences = 0;                         // so far
};

// What happened to a job of the run (cluster/starts.h).
struct PageJobEvent {
  double time = 0;  // in seconds since 1970
  std::string job, what, reason;
};

struct PageRun {
  std::string name;                            // two runs have different ones
  metrics::History history{};                  // of a long run with a choice of its samples
  int64_t planned_steps = 0;                   // of the whole run; 0: not known
  PagePoints planned_lr{};                     // the learning rates of some steps
  std::vector<NamedText> configuration{};      // each key with its value
  std::vector<NamedText> origin{};             // "dataset", "code", ...
  std::map<std::string, PagePoints> scores{};  // by name
  PagePlan plan{};
  std::vector<PageShare> mixture{};  // empty: one source, or not known
  std::vector<PageJobEvent> jobs{};  // in the order of time; empty: the run was started by hand
  std::vector<std::string> notes{};  // what is damaged or missing
};

struct RunPage {
  std::string title;
  std::vector<PageRun> runs;
  std::vector<NamedText> defaults{};  // of the keys of a configuration
  std::string version{};              // of a live page: changes with its files
};

std::string run_page(const RunPage& page);

// The same page from `hearth report --serve`: it asks its server for "/version" every two seconds, and for "/data"
// where that has changed.
std::string live_run_page(const RunPage& page);
// The numbers of a page, as JSON: what "/data" has.
std::string run_page_data(const RunPage& page);

}  // namespace hearth::report
