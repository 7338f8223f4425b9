// SPDX-License-Identifier: Apache-2.0
// `hearth inspect trace`: the costs of some steps.
#include "commands/commands.h"
#include "report/trace_costs.h"

namespace hearth::commands {

int inspect_trace(CommandLine& line) {
  Path given;
  int64_t top = 10;
  bool json = false;
  line.positional("TRACE", &given,
                  "a trace that a training wrote with profiling.enable_profiling, or one of PyTorch's profiler; or a "
                  "folder of traces: RUN/profile_traces/iteration_10 has one of each rank, and of RUN or "
                  "RUN/profile_traces the newest iteration is taken");
  line.option("--top N", &top, within(1, 1000), "how many costs are listed");
  line.flag("--json", &json, "every cost of every rank, as JSON");
  if (!line.parse()) return 0;
  std::vector<report::TraceCosts> ranks;
  const std::vector<Path> files = report::trace_files(given);
  for (const Path& file : files) ranks.push_back(report::trace_costs(report::read_trace(file)));
  if (json) {
    fmt::print("{}", report::trace_costs_json(ranks));
    return 0;
  }
  fmt::print("{}\n{}", files.size() == 1 ? files[0].string() : files[0].parent_path().string(),
             report::format_trace_costs(ranks, top));
  return 0;
}

}  // namespace hearth::commands
