// SPDX-License-Identifier: Apache-2.0
// Where two trainings differ: in configuration, in code and data, and from which step on in their numbers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "report/run_page.h"

namespace hearth::report {

struct TextDifference {
  std::string name, first, second;  // empty text: the name is missing there
};

// The names with different texts, in the order of `first`, then those that only `second` has.
std::vector<TextDifference> text_differences(const std::vector<NamedText>& first, const std::vector<NamedText>& second);

// A number of the steps that both trainings have.
struct NumberDifference {
  std::string name;        // "loss", "gradient norm", ...
  int64_t steps = 0;       // steps at which both have measured it
  int64_t first_step = 0;  // the first at which bits differ; 0: none
  double first = 0, second = 0;
  double largest = 0;  // the largest absolute difference
  int64_t largest_step = 0;
};

struct RunDifference {
  std::vector<TextDifference> configuration, origin;
  int64_t first_steps = 0, second_steps = 0;  // the newest steps
  int64_t common_steps = 0;
  std::vector<NumberDifference> numbers;  // numbers that both trainings have: data first, then what depends on them
};

RunDifference difference(const PageRun& first, const PageRun& second);

// For people; both names stand above the columns.
std::string format_difference(const RunDifference& difference, const std::string& first, const std::string& second);

}  // namespace hearth::report
