// SPDX-License-Identifier: Apache-2.0
// The chosen keys: those that a run file or --set gives another value than the default.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "config/load.h"

namespace hearth::config {

struct ChosenKey {
  std::string section;  // "model", "data.source.0"
  std::string text;     // "dim = 192"
  bool operator==(const ChosenKey&) const = default;
};

// In the order of the sections; keys of lists come last. A flavor's keys are left out (model.flavor implies them), and
// so are the data sources (a start lists them with their shares). A configuration that was not read from a file gives
// every key that differs from its default.
std::vector<ChosenKey> chosen_keys(const LoadResult& run);

// "model: dim = 192, n_heads = 6; training: steps = 100", in at most `num_lines` lines of at most `columns` characters.
// A longer key ends with "..."; if not all keys fit, the text ends with "and 12 more".
std::vector<std::string> chosen_lines(std::span<const ChosenKey> keys, size_t columns, size_t num_lines);

}  // namespace hearth::config
