#include "commands/commands.h"

namespace hearth::commands {
namespace {

// In the order in which they are listed; rows of a group stand together.
constexpr Command kCommands[] = {
    {"Configuration", "config docs", "print docs/config.md: every key of a run file", "config docs > docs/config.md",
     config_docs},
};

}  // namespace

std::span<const Command> all_commands() { return kCommands; }

}  // namespace hearth::commands
