// The folder of one run: who may write in it, and what is there to go on from.
//
//   RUN/run.lock        held while a training runs; the kernel drops it with the process, however it ends
//   RUN/checkpoints/    step-00000100, ...
//   RUN/metrics.jsonl
//   RUN/config.toml     every key with its value, as the newest start found it; checkpoints keep those they came from
//   RUN/logs/           rank-00000.log: notes, warnings and the error of a training that failed
//   RUN/old-1/          what --restart moved aside: the four above of an earlier training
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
  // Makes the folder and takes its lock. Throws user_error while another training has it.
  explicit RunFolder(const config::RunConfig& config);

  const Path& path() const { return path_; }
  const Path& checkpoints() const { return checkpoints_; }
  Path metrics_file() const { return path_ / "metrics.jsonl"; }
  Path run_file() const { return path_ / "config.toml"; }
  Path logs() const { return path_ / "logs"; }

  // Throws user_error where RUN/config.toml is not ours: somebody's own run file is never overwritten.
  void check_run_file() const;
  // Atomically; nothing where it is the same already.
  void write_run_file(std::string_view content) const;

  // Moves an earlier training's checkpoints and metrics to RUN/old-N; nothing is deleted. Returns that folder, or
  // nothing where there was no earlier training.
  std::optional<Path> move_aside();

  // The newest checkpoint whose every checksum is right, or nothing when there is none at all. `notes` gets a line for
  // each damaged one that was passed over and for each leftover of a kill that was cleared away. Throws damaged() when
  // there are checkpoints but none is good: starting over is for the user to decide.
  std::optional<Path> newest_checkpoint(std::vector<std::string>& notes);

  // Removes the folder again if this object made it and no step was made: a start that was refused leaves no trace.
  void remove_if_unused();

 private:
  Path path_, checkpoints_;
  bool is_new_;
  std::unique_ptr<FileLock> lock_;
};

}  // namespace hearth::run
