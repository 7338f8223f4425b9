// SPDX-License-Identifier: Apache-2.0
// Names that other programs have for keys of Hearth: for suggestions beside errors about unknown keys.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace hearth::config {

struct FamiliarName {
  std::string key;        // "learning_rate", without a section
  std::string_view ours;  // "optimizer.lr"
};

std::vector<FamiliarName> familiar_names();

// Our key; empty if the name is not in the table.
std::string_view our_name_of(std::string_view key);

}  // namespace hearth::config
