// SPDX-License-Identifier: Apache-2.0
// The programs of Slurm, as far as Hearth calls them: sbatch, squeue, sacct, scancel. Each call ends within half a
// minute.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/file.h"

namespace hearth::cluster {

// Submits a script and returns the job's number. `cluster` is named in messages. Throws user_error if there is no
// sbatch here, or if it refuses, with its words.
std::string submit_batch(const Path& script, const std::string& cluster);

struct SlurmJob {
  std::string state;   // "PENDING", "RUNNING", "COMPLETED", "CANCELLED", "NODE_FAIL", ...
  std::string reason;  // why it waits or ended: "Resources"; "None" is left out
  std::string nodes;   // "node[1-2]"; empty while it waits
  std::string left;    // time until its limit: "1:23:45"; empty: not known

  // Whether it runs, waits, or is about to do either.
  bool is_active() const;
};

struct SlurmAnswer {
  std::optional<SlurmJob> job{};  // nullopt: Slurm does not know the job, or did not answer
  std::string silence{};          // why it did not answer; empty: it did
};

// What Slurm knows of a job: squeue's answer, else sacct's. A controller that is busy or restarts gives no answer. The
// job may then be waiting, running or neither.
SlurmAnswer ask_slurm(const std::string& job);

// Cancels a job, or sends a signal to its batch script alone ("USR2"). Throws an Error with scancel's words.
void cancel_slurm_job(const std::string& job, const std::string& script_signal = {});

// Puts a running job back into the queue, and adds these nodes to the list of nodes that it must not get. If the
// calling process belongs to that job, Slurm may end it meanwhile. Throws an Error with scontrol's words, such as for a
// job without a batch script.
void requeue_without(const std::string& job, const std::vector<std::string>& nodes);

}  // namespace hearth::cluster
