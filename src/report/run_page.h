// One or several trainings as one HTML page: curves to zoom, and tables. It has its scripts and numbers inside and
// loads nothing, so that it can be mailed, or opened on a host without a network. The charts are dygraphs'
// (dygraphs.com, MIT).
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "metrics/jsonl.h"

namespace hearth::report {

using NamedText = std::pair<std::string, std::string>;

struct PageRun {
  std::string name;  // two runs have different ones
  metrics::History history{};
  int64_t planned_steps = 0;                             // of the whole run; 0: not known
  std::vector<std::pair<int64_t, double>> planned_lr{};  // some steps, with their learning rates
  std::vector<NamedText> configuration{};                // each key with its value
  std::vector<NamedText> origin{};                       // "dataset", "code", ...
  std::vector<std::string> notes{};                      // what is damaged or missing
};

struct RunPage {
  std::string title;
  std::vector<PageRun> runs;
  std::vector<NamedText> defaults{};  // of the keys of a configuration
};

std::string run_page(const RunPage& page);

}  // namespace hearth::report
