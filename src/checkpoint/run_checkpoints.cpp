#include "checkpoint/run_checkpoints.h"

#include <fmt/format.h>

#include "base/error.h"
#include "checkpoint/retain.h"
#include "config/load.h"

namespace hearth::checkpoint {

Path checkpoint_folder_of(const Path& run) {
  std::string name = config::Checkpoint{}.folder;
  if (path_exists(run / "config.toml")) name = config::read_run(run / "config.toml", {}).config.checkpoint.folder;
  return join_path(run, name);
}

Path checkpoints_of(const Path& run) {
  const Path named = checkpoint_folder_of(run);
  for (const Path& folder : {named, run})
    if (!list_steps(folder).empty()) return folder;
  throw user_error(fmt::format("{} has no checkpoints", run.string()),
                   fmt::format("neither it nor {} has a step-... folder", named.string()),
                   "give the folder of a run that has saved");
}

}  // namespace hearth::checkpoint
