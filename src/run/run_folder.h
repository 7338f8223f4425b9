// The folder of one run: its lock, its files and its checkpoints.
//
//   RUN/run.lock        locked while a training runs; the kernel releases the lock when the process ends
//   RUN/checkpoints/    step-00000100, ...
//   RUN/metrics.jsonl
//   RUN/config.toml     every key with its value at the newest start; each checkpoint has its own copy
//   RUN/logs/           rank-00000.log: notes, warnings and the error of a training that failed
//   RUN/old-1/          files of an earlier training that --restart moved: the four above
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "config/config.h"

namespace hearth::run {

// The first line of RUN/config.toml.
inline constexpr std::string_view kRunFileHeading =
    "# Written by `hearth train` at every start: every key with its value. It goes on with this run.\n\n";

class RunFolder {
 public:
  // Makes the folder and takes its lock. Throws user_error if another training holds the lock.
  explicit RunFolder(const config::RunConfig& config);

  const Path& path() const { return path_; }
  const Path& checkpoints() const { return checkpoints_; }
  Path metrics_file() const { return path_ / "metrics.jsonl"; }
  Path run_file() const { return path_ / "config.toml"; }
  Path logs() const { return path_ / "logs"; }

  // Throws user_error if Hearth did not write RUN/config.toml: a user's own file is never overwritten.
  void check_run_file() const;
  // Writes atomically, and only if the content differs.
  void write_run_file(std::string_view content) const;

  // Moves an earlier training's checkpoints and metrics to RUN/old-N; nothing is deleted. Returns that folder, or
  // nothing without an earlier training.
  std::optional<Path> move_aside();

  // The newest checkpoint with correct checksums, or nothing if there are no checkpoints. `notes` gets a line for each
  // damaged checkpoint and for each removed leftover of a killed save. Throws damaged() if all checkpoints are damaged:
  // only the user may decide to start over.
  std::optional<Path> newest_checkpoint(std::vector<std::string>& notes);

  // Removes the folder if this object made it and no step was made: a refused start leaves no files.
  void remove_if_unused();

 private:
  Path path_, checkpoints_;
  bool is_new_;
  std::unique_ptr<FileLock> lock_;
};

}  // namespace hearth::run
