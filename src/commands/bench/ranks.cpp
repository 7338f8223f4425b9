// `hearth bench ranks`: checks its options, then becomes `hearth-train`.
#include "commands/commands.h"
#include "commands/hearth_train.h"
#include "commands/run/options.h"

namespace hearth::commands {

std::optional<config::BenchRanksOptions> bench_ranks_options(CommandLine& line) {
  config::BenchRanksOptions options;
  line.option("--ranks", "N", &options.ranks, "ranks; each needs two threads and four files").range(4, 20000);
  line.option("--repeats", "N", &options.repeats, "timed steps").range(1, 100000);
  line.flag("--json", &options.json, "print one JSON object");
  if (!line.parse()) return std::nullopt;
  return options;
}

int bench_ranks(CommandLine& line) {
  if (!bench_ranks_options(line)) return 0;
  become_hearth_train(line);
}

}  // namespace hearth::commands
