// SPDX-License-Identifier: Apache-2.0
// `hearth status`: the state of a run, or a line for each run of a folder.
#include "base/log.h"
#include "cluster/run_status.h"
#include "commands/commands.h"
#include "runfolder/names.h"

namespace hearth::commands {
namespace {

bool is_run_folder(const Path& folder) {
  return path_exists(folder / runfolder::kMetricsFile) || path_exists(cluster::starts_file(folder)) ||
         path_exists(folder / runfolder::kLeaseFile);
}

// The runs in a folder, by name.
std::vector<Path> runs_in(const Path& folder) {
  if (!folder_exists(folder)) throw user_error(fmt::format("there is no folder {}", folder.string()));
  std::vector<Path> runs;
  for (const std::string& name : list_folder(folder))
    if (folder_exists(folder / name) && is_run_folder(folder / name)) runs.push_back(folder / name);
  return runs;
}

}  // namespace

int status(CommandLine& line) {
  Path run;
  Path all;
  bool json = false;
  line.positional("RUN", &run, "a run folder, or its run file").optional();
  line.option("--all FOLDER", &all, "a line for each run in this folder");
  line.flag("--json", &json, "one JSON object for each run, on a line of its own");
  if (!line.parse()) return 0;
  if (run.empty() == all.empty())
    throw user_error("hearth status needs RUN or --all FOLDER, one of them", {},
                     "for example: hearth status runs/quickstart");
  const std::vector<Path> runs =
      all.empty() ? std::vector<Path>{cluster::run_folder_of(run)} : runs_in(normal_path(all));
  if (runs.empty()) log_info("no run in {}", all.string());
  for (const Path& folder : runs) {
    const cluster::RunStatus found = cluster::run_status(folder);
    fmt::print("{}", json ? status_json(found) : all.empty() ? status_text(found) : status_line(found) + "\n");
  }
  return 0;
}

}  // namespace hearth::commands
