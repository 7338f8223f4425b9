// SPDX-License-Identifier: Apache-2.0
#include "runfolder/run_folder.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/error.h"

namespace hearth::runfolder {
namespace {

Path folder_if(bool used, const Path& run, const std::string& name) {
  return used ? normal_path(join_path(run, name)) : Path();
}

bool is_empty_folder(const Path& path) { return folder_exists(path) && list_folder(path).empty(); }

}  // namespace

RunFolder::RunFolder(const config::RunConfig& config, bool locks)
    : path_(normal_path(config.run_folder())),
      checkpoints_(normal_path(config.checkpoint_folder())),
      tensorboard_(folder_if(config.metrics.enable_tensorboard, path_, config.metrics.save_tb_folder)),
      traces_(folder_if(config.profiling.enable_profiling, path_, config.profiling.save_traces_folder)),
      memory_snapshots_(
          folder_if(config.profiling.enable_memory_snapshot, path_, config.profiling.save_memory_snapshot_folder)),
      is_new_(locks && !path_exists(path_)) {
  if (is_object(path_))
    throw user_error(fmt::format("job.dump_folder = {} is in a store", path_.string()),
                     "a run's lock, lease and metrics need a folder that grows",
                     "keep the run folder on a disk, and set checkpoint.folder = \"s3://BUCKET/...\"");
  if (!locks) return;
  make_folders(path_);
  lock_ = std::make_unique<RunLock>(path_, checkpoints_);
  remove_tree(flight());  // of an earlier start, which may have had more ranks
}

void RunFolder::check_run_file() const {
  if (!path_exists(run_file()) || read_file(run_file()).starts_with(kRunFileHeading)) return;
  throw user_error(fmt::format("{} was not written by a training", run_file().string()),
                   "a training writes its configuration to this path and would overwrite the file",
                   "give the file another name, such as run.toml, or the run another job.dump_folder");
}

void RunFolder::write_run_file(std::string_view content) const {
  check_run_file();
  remove_file(path_ / kDoneFile);
  if (path_exists(run_file()) && read_file(run_file()) == content) return;
  write_file_atomic(run_file(), content);
}

void RunFolder::require_shared(const std::string& lease_id, double wait_s) const {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(wait_s);
  while (true) {
    if (const auto holder = read_lease(path_); holder && holder->id == lease_id) return;
    if (std::chrono::steady_clock::now() >= end) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  throw Error(ExitCode::kHardware, fmt::format("{} is not the folder of rank 0", path_.string()),
              fmt::format("rank 0 has written {} there, and it is not here", kLeaseFile),
              "put job.dump_folder on a file system that all hosts share, under the same path");
}

void RunFolder::check_lease() const {
  if (lock_) lock_->check();
}

void RunFolder::mark_done(int64_t step) const {
  if (lock_) lock_->lease().check();
  write_file_atomic(path_ / kDoneFile, fmt::format("{{\"step\": {}}}\n", step));
}

std::optional<Path> RunFolder::move_aside() {
  if (is_object(checkpoints_) && path_exists(checkpoints_))
    throw user_error(fmt::format("--restart cannot move {} aside", checkpoints_.string()), "a store cannot rename",
                     "remove it, or give the run another checkpoint.folder");
  std::vector<Path> products;
  for (const Path& product : {checkpoints_, metrics_file()})
    if (path_exists(product)) products.push_back(product);
  if (products.empty()) return std::nullopt;

  int number = 1;
  while (path_exists(path_ / fmt::format("old-{}", number))) ++number;
  const Path aside = path_ / fmt::format("old-{}", number);
  make_folders(aside);
  for (const Path& with_them :
       {run_file(), plan_file(), scores_file(), logs(), tensorboard_, traces_, memory_snapshots_})
    if (with_them.parent_path() == path_ && path_exists(with_them)) products.push_back(with_them);
  for (const Path& product : products) rename_path(product, aside / product.filename());
  return aside;
}

std::string damage_note(const checkpoint::DamagedCheckpoint& bad) {
  return fmt::format("{} is damaged and not used: {}", checkpoint::step_name_of(bad.step), bad.reason);
}

std::optional<Path> RunFolder::newest_checkpoint(std::vector<std::string>& notes,
                                                 const std::vector<checkpoint::DamagedCheckpoint>& given_up) {
  std::vector<Error> refusals;
  for (const std::string& name : checkpoint::remove_leftovers(checkpoints_, &refusals))
    notes.push_back(fmt::format("removed {}, left by an interrupted save", name));
  for (const Error& refusal : refusals)
    notes.push_back(
        fmt::format("{} ({}): an interrupted save left it, and it is no checkpoint; the next start tries "
                    "again",
                    refusal.message(), refusal.why()));
  const checkpoint::NewestGood found = checkpoint::newest_candidate(checkpoints_, given_up);
  for (const checkpoint::DamagedCheckpoint& bad : found.damaged) notes.push_back(damage_note(bad));
  if (found.step) return found.folder;
  std::vector<checkpoint::DamagedCheckpoint> damaged_ones = given_up;
  damaged_ones.insert(damaged_ones.end(), found.damaged.begin(), found.damaged.end());
  if (damaged_ones.empty()) return std::nullopt;
  std::sort(damaged_ones.begin(), damaged_ones.end(), [](const auto& a, const auto& b) { return a.step > b.step; });

  std::string why;
  for (const checkpoint::DamagedCheckpoint& bad : damaged_ones)
    why += fmt::format("{}{}: {}", why.empty() ? "" : "; ", checkpoint::step_name_of(bad.step), bad.reason);
  throw damaged(fmt::format("no checkpoint in {} is good", checkpoints_.string()), why,
                "restore one from a copy, or start over with --restart, which moves the old ones aside");
}

void RunFolder::remove_if_unused() {
  if (!is_new_ || (lock_ && !lock_->lease().is_held())) return;
  for (const std::string& name : list_folder(path_)) {
    const Path path = path_ / name;
    const bool unused = name == kLockFile || name == kLeaseFile || path == run_file() || path == logs() ||
                        path == flight() || path == plan_file() || is_empty_folder(path) ||
                        (path == metrics_file() && read_file(metrics_file()).empty());
    if (!unused) return;
  }
  remove_tree(path_);
}

}  // namespace hearth::runfolder
