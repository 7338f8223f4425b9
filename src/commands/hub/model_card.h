// SPDX-License-Identifier: Apache-2.0
// The card of a pushed model: its README.md.
#pragma once

#include "commands/torch_options.h"

namespace hearth::commands {

// Text with YAML in front, as the Hub reads it. Sections of the run file that have paths of the machine are left out.
std::string format_card(const CardInput& input);

}  // namespace hearth::commands
