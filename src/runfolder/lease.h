// SPDX-License-Identifier: Apache-2.0
// The newest start of a training is the only one that may write in its run folder. RUN/run.lock keeps a second training
// out while the first one runs. But a lock does not reach over every network file system, and a host that was cut off
// may come back after its training was started again elsewhere. So each start writes the next higher number to
// RUN/lease. A training that finds another number there than its own must not write any more.
//
// What this guarantees: a checkpoint gets its final name only if its start had the lease directly before that rename.
// Temporary folders have the start's number in their names, so two starts never write the same files. A start that
// takes the lease then renames the temporary folders of older ones (checkpoint::remove_leftovers) before it looks for a
// checkpoint. So an older start that was stopped between its look at the lease and its rename finds nothing to rename
// when it wakes up, however late. If it renames before that, its checkpoint is complete, and the new start treats it as
// any other. The clocks of two hosts are never compared.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "base/file.h"
#include "runfolder/lease_holder.h"

namespace hearth::runfolder {

// The job that started this process, from its environment: HEARTH_JOB, which `hearth submit` sets, else Slurm's
// variables.
struct JobOfStart {
  std::string job;         // empty: none
  int64_t requeues = 0;    // how often Slurm has put it back into the queue
  bool submitted = false;  // by `hearth submit`

  // Whether the holder's training is an older start of the same run, which this start replaces. Jobs of `hearth submit`
  // follow each other: at most one of a run is current, and it has been recorded (`hearth job before`). The job of
  // another script replaces its own older start after Slurm has put it back into the queue.
  bool replaces(const LeaseHolder& holder) const;
};
JobOfStart job_of_start();

class Lease {
 public:
  // Takes the lease of a run folder for this process. A damaged file counts as no lease: the number is then 1.
  static Lease take(const Path& run);

  // The number of the start that has the lease of a run folder; 0: no start has it.
  static int64_t newest(const Path& run);

  int64_t number() const { return number_; }
  const std::string& id() const { return id_; }
  const Path& file() const { return file_; }
  bool is_held() const;  // no newer start has it
  // Throws an Error (kHardware) that names the other start if the lease is not this one's any more, or cannot be read.
  void check() const;

 private:
  Lease(Path file, int64_t number, std::string id) : file_(std::move(file)), number_(number), id_(std::move(id)) {}
  std::optional<LeaseHolder> holder() const;

  Path file_;
  int64_t number_;
  std::string id_;  // random: tells two starts at the same moment apart; the one that wrote last has the lease
};

}  // namespace hearth::runfolder
