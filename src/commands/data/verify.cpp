// SPDX-License-Identifier: Apache-2.0
// `hearth data verify`: whether a dataset is whole.
#include "data/study/verify.h"
#include "commands/commands.h"
#include "machine/cores.h"

namespace hearth::commands {

int data_verify(CommandLine& line) {
  Path folder;
  int64_t threads = 0;
  line.positional("DIR", &folder, "a folder made by `hearth data build`");
  line.option("--threads N", &threads, within(0, 4096), "shards read at a time; 0: one per core");
  if (!line.parse()) return 0;
  const data::VerifyResult result = data::verify_dataset(folder, threads == 0 ? machine::available_cores() : threads);
  for (const data::Damage& damage : result.damage) fmt::print("{}: {}\n", damage.shard, damage.description);
  if (!result.damage.empty())
    throw damaged(
        fmt::format("dataset {} is damaged in {}", folder.string(), counted(std::ssize(result.damage), "place")),
        fmt::format("{}: {}", result.damage[0].shard, result.damage[0].description),
        "restore the files from a copy, or run the `hearth data build` that made them again: it rewrites "
        "what is damaged");
  fmt::print("{} is whole: {} checked\n", folder.string(), format_bytes(result.bytes));
  return 0;
}

}  // namespace hearth::commands
