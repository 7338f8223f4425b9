// SPDX-License-Identifier: Apache-2.0
// The statistics of a dataset as one HTML page with inline charts (SVG). It loads nothing and runs no code: it can be
// mailed, or opened on a host without a network.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "data/study/stats.h"

namespace hearth::report {

struct StatsPage {
  std::string title;                                  // the dataset's folder
  std::string identity;                               // the dataset's hash
  int64_t top = 20;                                   // the number of most frequent tokens that are drawn
  std::function<std::string(int64_t id)> token_text;  // any readable text
};

std::string stats_page(const StatsPage& page, const std::vector<data::SplitStats>& splits);

}  // namespace hearth::report
