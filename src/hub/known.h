// SPDX-License-Identifier: Apache-2.0
// Data and weights that recipes in configs/ use, by short names: `hearth fetch smollm2-135m`.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hub/name.h"

namespace hearth::hub {

struct Known {
  std::string_view short_name;
  std::string_view name;       // "hf:..."
  std::string_view licence;    // as of 2026; a fetch prints what the repository says at that time
  std::string_view include;    // shell patterns between blanks; empty: all files
  std::string_view what;       // one line
  std::string_view note = {};  // something else that a user has to know, such as a restriction
};

std::span<const Known> known_names();
// Null if there is no such name.
const Known* find_known(std::string_view short_name);
std::vector<std::string> include_patterns(const Known& known);

// The table as text, with a heading.
std::string format_known();

}  // namespace hearth::hub
