// Help about run files for several commands.
#pragma once

#include <string>

namespace hearth::commands {

inline constexpr const char* kSetHelp = "another value for a key of the run file; the last one counts";

// Every key as "section.key = default  help", for --help.
std::string key_table();

}  // namespace hearth::commands
