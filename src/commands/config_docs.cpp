#include "commands/commands.h"

namespace hearth::commands {

int config_docs(CommandLine& line) {
  if (!line.parse()) return 0;
  return 0;
}

}  // namespace hearth::commands
