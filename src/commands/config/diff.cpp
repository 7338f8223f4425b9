// SPDX-License-Identifier: Apache-2.0
// `hearth config diff`: the keys in which two run files differ, defaults included.
#include "commands/commands.h"
#include "config/load.h"
#include "report/run_difference.h"
#include "report/run_facts.h"

namespace hearth::commands {
namespace {

std::vector<report::NamedText> texts_of(const Path& file) {
  const config::LoadResult run = config::read_run(file, {});  // its data need not be here
  config::throw_problems(run.file_name, run.problems);
  return report::configuration_texts(run.config);
}

}  // namespace

int config_diff(CommandLine& line) {
  Path first, second;
  line.positional("RUN.toml", &first, "a run file, such as config.toml in a run folder");
  line.positional("OTHER.toml", &second, "another one");
  if (!line.parse()) return 0;
  for (const report::TextDifference& d : report::text_differences(texts_of(first), texts_of(second)))
    fmt::print("{} = {} | {}\n", d.name, d.first.empty() ? "-" : d.first, d.second.empty() ? "-" : d.second);
  return 0;
}

}  // namespace hearth::commands
