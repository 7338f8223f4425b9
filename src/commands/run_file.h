// SPDX-License-Identifier: Apache-2.0
// Help about run files for several commands.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "config/config.h"

namespace hearth::commands {

inline constexpr const char* kSetHelp = "another value for a key of the run file; the last one counts";

// The names of all sections, and the command that lists the keys of one, for --help.
std::string sections_help();

// The keys of a section and of its lists, as "key = default  help". Throws user_error for an unknown name.
std::string section_keys(std::string_view section);

// The vocabulary of the first dataset; 0 if it is missing or not a dataset, which other checks report.
int64_t vocab_size_of_data(const config::RunConfig& config);

}  // namespace hearth::commands
