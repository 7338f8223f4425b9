#include <fmt/core.h>

#include "base/units.h"
#include "commands/commands.h"
#include "data/merge.h"

namespace hearth::commands {

int data_merge(CommandLine& line) {
  Path folder;
  line.positional("DIR", &folder, "the --out of every `hearth data build --part I/N`");
  if (!line.parse()) return 0;
  const data::Manifest manifest = data::merge_parts(folder);
  for (const data::SplitEntry& split : manifest.splits)
    fmt::print("{:<10} {:>9} documents {:>14} tokens {:>12} of text {:>5} shards\n", split.name, split.documents,
               split.tokens, format_bytes(split.text_bytes), split.shards.size());
  return 0;
}

}  // namespace hearth::commands
