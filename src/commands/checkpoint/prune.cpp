// SPDX-License-Identifier: Apache-2.0
// `hearth checkpoints prune`: deletes the checkpoints of a run that its rules do not keep.
#include <fmt/ranges.h>

#include <algorithm>

#include "checkpoint/retain.h"
#include "checkpoint/save.h"
#include "commands/commands.h"
#include "config/load.h"
#include "runfolder/names.h"
#include "runfolder/run_checkpoints.h"

namespace hearth::commands {
namespace {

// Nobody trains in the run while the lock lives.
std::unique_ptr<FileLock> lock_of(const Path& given, const Path& checkpoints) {
  if (is_object(given))
    throw user_error(fmt::format("{} is in a store, which has no lock", given.string()),
                     "a training may be writing there",
                     "give the run's folder on the disk, whose checkpoint.folder names this one");
  for (const Path& run : {given, given.parent_path(), checkpoints, checkpoints.parent_path()}) {
    if (is_object(run) || !path_exists(run / runfolder::kLockFile)) continue;
    std::unique_ptr<FileLock> lock = FileLock::try_lock(run / runfolder::kLockFile);
    if (lock != nullptr) return lock;
    throw user_error(fmt::format("a training runs in {}", run.string()),
                     "it deletes checkpoints by the rules of its run file itself", "wait for it, or stop it");
  }
  return nullptr;
}

}  // namespace

int checkpoints_prune(CommandLine& line) {
  Path run;
  int64_t latest = -1, every = -1, best = -1;
  bool dry_run = false;
  line.positional("RUN", &run, "run folder; the rules are those of RUN/config.toml");
  line.option("--keep-latest K", &latest, within(1, 1'000'000), "keep the K newest; default: checkpoint.keep_latest_k");
  line.option("--keep-every N", &every, within(0, int64_t{1} << 40),
              "also keep steps that N divides; default: checkpoint.keep_every");
  line.option("--keep-best K", &best, within(0, 1'000'000),
              "also keep the K with the lowest validation losses; default: checkpoint.keep_best");
  line.flag("--dry-run", &dry_run, "only say what would be deleted");
  if (!line.parse()) return 0;

  const Path checkpoints = runfolder::checkpoints_of(run);
  checkpoint::KeepRules rules;
  if (path_exists(run / runfolder::kRunFile))
    rules = runfolder::keep_rules(config::read_run(run / runfolder::kRunFile, {}).config.checkpoint);
  if (latest >= 0) rules.latest_k = latest;
  if (every >= 0) rules.every = every;
  if (best >= 0) rules.best = best;
  if (rules.latest_k == 0)
    throw user_error("all checkpoints are kept", "checkpoint.keep_latest_k is 0, or there is no RUN/config.toml",
                     "give --keep-latest K");
  const std::unique_ptr<FileLock> lock = lock_of(run, checkpoints);
  // The newest good one stays, whatever the rules say: damaged ones after it cannot be resumed from.
  const checkpoint::NewestGood good = checkpoint::newest_good(checkpoints);
  if (!good.step)
    throw damaged(fmt::format("{} has no good checkpoint", checkpoints.string()), {}, "nothing was deleted");
  std::vector<checkpoint::StepFolder> found = checkpoint::list_checkpoints(checkpoints);
  std::erase_if(found, [&](const checkpoint::StepFolder& folder) { return folder.step > *good.step; });
  int64_t bytes = 0;
  const std::vector<int64_t> doomed = checkpoint::steps_to_delete(found, rules);
  for (const checkpoint::StepFolder& folder : found)
    if (std::ranges::binary_search(doomed, folder.step)) bytes += folder_bytes(folder.folder);
  if (!dry_run) checkpoint::prune(checkpoints, rules, *good.step);
  if (doomed.empty())
    fmt::print("nothing to delete: the rules keep {}\n", counted(std::ssize(found), "checkpoint"));
  else
    fmt::print("{} {}, {}: {} {}\n", dry_run ? "would delete" : "deleted", counted(std::ssize(doomed), "checkpoint"),
               format_bytes(bytes), doomed.size() == 1 ? "step" : "steps", fmt::join(doomed, ", "));
  return 0;
}

}  // namespace hearth::commands
