// SPDX-License-Identifier: Apache-2.0
// The folder of one run. It has a lock, which allows one writer, and the files from which the run continues. Its files:
// runfolder/names.h.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "checkpoint/retain.h"
#include "config/config.h"
#include "runfolder/lock.h"

namespace hearth::runfolder {

// The first line of RUN/config.toml.
inline constexpr std::string_view kRunFileHeading =
    "# Written by `hearth train` at every start: every key with its value. It goes on with this run.\n\n";

// The console's line about a damaged checkpoint that is skipped.
std::string damage_note(const checkpoint::DamagedCheckpoint& bad);

class RunFolder {
 public:
  // With `locks` (rank 0): makes the folder, takes its lock, and its lease (runfolder/lock.h). Throws user_error if
  // another training uses it.
  explicit RunFolder(const config::RunConfig& config, bool locks = true);

  const Path& path() const { return path_; }
  const Path& checkpoints() const { return checkpoints_; }
  Path metrics_file() const { return path_ / kMetricsFile; }
  Path run_file() const { return path_ / kRunFile; }
  Path plan_file() const { return path_ / kPlanFile; }
  Path logs() const { return path_ / kLogsFolder; }
  Path flight() const { return path_ / kFlightFolder; }
  // The folder of TensorBoard's files; empty: none are written.
  const Path& tensorboard() const { return tensorboard_; }

  // The folders of [profiling]; empty: it is off.
  const Path& traces() const { return traces_; }
  const Path& memory_snapshots() const { return memory_snapshots_; }
  // Scores of checkpoints, a line each (report/run_extras.h).
  Path scores_file() const { return path_ / kScoresFile; }

  // The lease of this training: only rank 0 has it.
  std::optional<Lease> lease() const { return lock_ ? std::optional(lock_->lease()) : std::nullopt; }
  // For the other ranks, at the start: waits until they see the lease that rank 0 has taken, by its id. A network file
  // system may show a new file late. Throws an Error (kHardware) that says that the folder is not shared.
  void require_shared(const std::string& lease_id, double wait_s = 30) const;
  // Throws an Error (kHardware) once a newer start has the lease. Costs nothing otherwise.
  void check_lease() const;

  // Throws user_error if RUN/config.toml was not written by us: a user's own run file is never overwritten.
  void check_run_file() const;
  // Writes RUN/config.toml atomically if its content changes. Removes RUN/done.json, because the training continues.
  void write_run_file(std::string_view content) const;
  // Writes RUN/done.json, for whoever started the training: a launcher's exit code can be 0 without it. Throws an Error
  // (kHardware) if a newer start has the lease.
  void mark_done(int64_t step) const;

  // Moves an earlier training's checkpoints and metrics to RUN/old-N; nothing is deleted. Returns that folder, or
  // nullopt without an earlier training.
  std::optional<Path> move_aside();

  // The newest checkpoint to try (checkpoint::newest_candidate), or nullopt if there are no checkpoints. `given_up`:
  // those that were found damaged while they were loaded. `notes` gets a line for each other damaged checkpoint that
  // was skipped, and for each leftover of a killed process that was removed. Throws damaged() if all checkpoints are
  // damaged, because only the user may decide to start over.
  std::optional<Path> newest_checkpoint(std::vector<std::string>& notes,
                                        const std::vector<checkpoint::DamagedCheckpoint>& given_up = {});

  // Removes the folder if this object made it and no step was made. A refused start leaves no files.
  void remove_if_unused();

 private:
  Path path_, checkpoints_, tensorboard_, traces_, memory_snapshots_;
  bool is_new_;
  std::unique_ptr<RunLock> lock_;
};

}  // namespace hearth::runfolder
