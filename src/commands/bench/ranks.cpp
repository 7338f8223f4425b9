// SPDX-License-Identifier: Apache-2.0
// The options of `hearth bench ranks`.
#include "commands/torch_options.h"

namespace hearth::commands {

std::optional<config::BenchRanksOptions> bench_ranks_options(CommandLine& line) {
  config::BenchRanksOptions options;
  line.option("--ranks N", &options.ranks, within(4, 20000), "ranks; each needs two threads and four files");
  line.option("--repeats N", &options.repeats, within(1, 100000), "timed steps");
  line.flag("--json", &options.json, "print one JSON object");
  if (!line.parse()) return std::nullopt;
  return options;
}

}  // namespace hearth::commands
