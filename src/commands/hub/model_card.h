// SPDX-License-Identifier: Apache-2.0
// The card of a pushed model: its README.md.
#pragma once

#include "commands/torch_options.h"

namespace hearth::commands {

// Text with YAML in front, as the Hub reads it. Leaves out the run file's sections with paths of this machine.
std::string format_card(const CardInput& input);

}  // namespace hearth::commands
