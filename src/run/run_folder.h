// The folder of one run. It has a lock, which allows one writer, and the files from which the run continues.
//
//   RUN/run.lock        locked during a training; the kernel releases it with the process, however it ends
//   RUN/lease           which start writes here (run/lease.h)
//   RUN/checkpoints/    step-00000100, ...
//   RUN/metrics.jsonl
//   RUN/tb/             event files for TensorBoard, with metrics.enable_tensorboard (metrics/tensorboard.h)
//   RUN/profile_traces/, RUN/memory_snapshot/   with [profiling] (train/profiler.h)
//   RUN/done.json       written after the last step is saved, removed when the training goes on past it
//   RUN/config.toml     every key with its value, written by the newest start; a checkpoint has its own copy
//   RUN/plan.json       what was expected of memory and speed, by the newest start (run/plan_record.h)
//   RUN/flight/         rank-00000.ring: the last calls of each of several ranks (mesh/flight.h)
//   RUN/logs/           rank-00000.log: notes, warnings and the error of a failed training
//   RUN/old-1/          an earlier training that --restart moved aside: all of these but lock, lease and flight
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "checkpoint/retain.h"
#include "config/config.h"
#include "run/run_lock.h"

namespace hearth::run {

// The first line of RUN/config.toml.
inline constexpr std::string_view kRunFileHeading =
    "# Written by `hearth train` at every start: every key with its value. It goes on with this run.\n\n";

// A line about a checkpoint that is left out.
std::string damage_note(const checkpoint::DamagedCheckpoint& bad);

class RunFolder {
 public:
  // With `locks` (rank 0): makes the folder, takes its lock, and its lease (run/run_lock.h). Throws user_error if
  // another training uses it.
  explicit RunFolder(const config::RunConfig& config, bool locks = true);

  const Path& path() const { return path_; }
  const Path& checkpoints() const { return checkpoints_; }
  Path metrics_file() const { return path_ / "metrics.jsonl"; }
  Path run_file() const { return path_ / "config.toml"; }
  Path plan_file() const { return path_ / "plan.json"; }
  Path logs() const { return path_ / "logs"; }
  Path flight() const { return path_ / "flight"; }
  // The folder of TensorBoard's files; empty: none are written.
  const Path& tensorboard() const { return tensorboard_; }

  // The folders of [profiling]; empty: it is off.
  const Path& traces() const { return traces_; }
  const Path& memory_snapshots() const { return memory_snapshots_; }
  // Scores of checkpoints, a line each (report/run_extras.h).
  Path scores_file() const { return path_ / "scores.jsonl"; }

  // Rank 0's; other ranks have none.
  std::optional<Lease> lease() const { return lock_ ? std::optional(lock_->lease()) : std::nullopt; }
  // Throws an Error (kHardware) once a newer start has the lease. Costs nothing otherwise.
  void check_lease() const;

  // Throws user_error if RUN/config.toml was not written by us: a user's own run file is never overwritten.
  void check_run_file() const;
  // Writes atomically, if the content is another one. The training goes on: removes RUN/done.json.
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

}  // namespace hearth::run
