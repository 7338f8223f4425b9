// SPDX-License-Identifier: Apache-2.0
// The state of a run, from its folder and the scheduler: nothing is locked or changed, so it may be asked at any time
// from any host that sees the folder.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/file.h"
#include "cluster/goodput.h"
#include "cluster/slurm.h"
#include "cluster/starts.h"
#include "runfolder/lease_holder.h"

namespace hearth::cluster {

// A job of `hearth submit` without a scheduler is "local-" and the process number of its script.
std::optional<int64_t> local_process(const std::string& job);
// Whether the script of that job runs on this host.
bool local_job_runs(const std::string& job, const Path& run);

enum class RunState {
  kNothing,  // nothing was trained or submitted
  kQueued,   // its job waits
  kRunning,  // it trains
  kDone,     // the training is complete
  kStopped,  // it ended, and no job will continue it
  kUnknown   // it trained on another host that shows no sign of life, or Slurm has its job and does not answer
};
std::string_view name_of(RunState state);  // "nothing", "queued", ...

struct RunStatus {
  Path run;
  RunState state = RunState::kNothing;
  std::string why{};                // the state's reason: "Resources", "the time limit came"
  std::string job{};                // the job that has the run now, or had it last; empty: the run was not submitted
  std::optional<SlurmJob> slurm{};  // what Slurm says of that job
  // The training that runs without such a job: it was started by hand, or its job's script was killed.
  std::optional<runfolder::LeaseHolder> holder{};
  // A process of a local job whose script was killed before its ranks had the run's lease.
  std::optional<int64_t> orphan{};
  int64_t step = 0, steps = 0;  // steps: of the whole run; 0: not known
  std::optional<double> loss{}, validation_loss{};
  int64_t tokens = 0;
  double tokens_per_second = 0;          // median of the last 20 steps
  std::optional<double> seconds_left{};  // at that rate; empty: not known, or done
  int64_t checkpoint_step = 0;           // 0: no checkpoint yet
  double seconds_since_step = -1;        // since the newest line of metrics.jsonl; -1: no line yet
  std::vector<StartEvent> events{};      // read from RUN/starts.jsonl
  Goodput goodput{};                     // only for a run that was submitted
};

// Throws user_error if the folder does not exist.
RunStatus run_status(const Path& run);

// The run folder that a user names: the folder itself, or the run file that names it.
Path run_folder_of(const Path& given);

// For people: one line for each fact, and one for the end of each start, with its reason.
std::string status_text(const RunStatus& status);
std::string status_line(const RunStatus& status);  // for a list of runs
std::string status_json(const RunStatus& status);  // one object, one line

}  // namespace hearth::cluster
