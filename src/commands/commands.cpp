#include "commands/commands.h"

namespace hearth::commands {
namespace {

// In the order in which they are listed; rows of a group stand together.
constexpr Command kCommands[] = {
    {"Data", "data build", "turn text into token shards", "data build --out data/books --validation 0.05 books/",
     data_build},
    {"Data", "data inspect", "show what a dataset holds", "data inspect data/books", data_inspect},
    {"Data", "data verify", "check every block of a dataset", "data verify data/books", data_verify},
    {"Data", "data sample", "print samples, with where they come from", "data sample run.toml --step 100", data_sample},
    {"Configuration", "config docs", "print docs/config.md: every key of a run file", "config docs > docs/config.md",
     config_docs},
};

}  // namespace

std::span<const Command> all_commands() { return kCommands; }

}  // namespace hearth::commands
