// SPDX-License-Identifier: Apache-2.0
// One or several trainings as one HTML page: curves to zoom, and tables. Its scripts and numbers are inside the file,
// so it can be mailed, or opened on a host without a network. The charts are dygraphs' (dygraphs.com, MIT).
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
  std::optional<int64_t> memory_bytes{};  // memory of a rank's tensors
  int64_t before_bytes = 0;               // memory of the process before it has tensors
};

// A source's share of the sequences.
struct PageShare {
  std::string source;
  std::optional<double> planned{}, realised{};  // share of the whole run; share of the steps so far
  double sequences = 0;                         // so far
};

// What happened to a job of the run (cluster/starts.h).
struct PageJobEvent {
  double time = 0;  // in seconds since 1970
  std::string job, what, reason;
};

struct PageRun {
  std::string name;                            // two runs have different ones
  metrics::History history{};                  // a long run has only a choice of its samples
  int64_t planned_steps = 0;                   // of the whole run; 0: not known
  PagePoints planned_lr{};                     // the learning rates of some steps
  std::vector<NamedText> configuration{};      // each key with its value
  std::vector<NamedText> origin{};             // "dataset", "code", ...
  std::map<std::string, PagePoints> scores{};  // by name
  PagePlan plan{};
  std::vector<PageShare> mixture{};  // empty: one source, or not known
  std::vector<PageJobEvent> jobs{};  // in the order of time; empty: the run was started by hand
  std::vector<std::string> notes{};  // about damaged or missing files
};

struct RunPage {
  std::string title;
  std::vector<PageRun> runs;
  std::vector<NamedText> defaults{};  // the default of each configuration key
  std::string version{};              // for a live page: changes when the run's files change
};

std::string run_page(const RunPage& page);

// The same page from `hearth report --serve`: it asks its server for "/version" every two seconds, and for "/data" if
// the version has changed.
std::string live_run_page(const RunPage& page);
// The numbers of a page, as JSON: the answer to "/data".
std::string run_page_data(const RunPage& page);

}  // namespace hearth::report
