// SPDX-License-Identifier: Apache-2.0
// RUN/starts.jsonl: what happened to the jobs of a run, one JSON object per line, in the order of time. `hearth
// submit`, `hearth stop` and the job's script (through `hearth job`) append to it.
//   {"event": "submit", "time": "2026-01-31T23:59:59Z", "host": "login1", "job": "12", "cluster": "frontier",
//    "nodes": 2, "ranks": 16}
//   {"event": "start", ..., "job": "12", "step": 100}
//   {"event": "end", ..., "job": "12", "step": 180, "code": 75, "signal": "limit", "next": "requeue",
//    "why": "the time limit came"}
//   {"event": "queued", ..., "job": "13", "after": "12"}
//   {"event": "stop", ..., "job": "13"}
// "step" is the newest checkpoint's; 0: no checkpoint yet. A start's "requeues" says how often Slurm has put its job
// back into the queue; without it, never. A job may have several starts. A kill may leave half a line at the end. The
// next writer ends that line, and readers skip lines that are not events.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"

namespace hearth::cluster {

struct StartEvent {
  std::string name;  // "submit", "start", "end", "queued", "stop"
  std::string time{}, host{};
  std::string job{};
  std::string cluster{};         // submit: the name or file, as it was given
  int64_t nodes = 0, ranks = 0;  // submit
  int64_t step = 0;              // start, end
  int64_t requeues = 0;          // start
  int64_t code = 0;              // end: exit code of the ranks' launcher
  std::string signal{};          // end: "none", "limit", "leave", "preempt", "preflight" or "nodes"
  std::string next{}, why{};     // end: what the script does now, and the reason
  std::string after{};           // queued: the job that it continues
  bool operator==(const StartEvent&) const = default;
};

Path starts_file(const Path& run);
// The lock file (FileLock) that `hearth submit` holds until it has written its job to RUN/starts.jsonl.
Path submit_lock(const Path& run);

// All events; empty if there is no file.
std::vector<StartEvent> read_starts(const Path& run);

// Appends an event, on disk at the return. Fills in `time` and, where it is empty, `host`.
void append_start(const Path& run, StartEvent event);

// The host of a later start of `job` than the start on `host` after `requeues` requeues. Empty: that start is the
// newest. Slurm starts a job again, elsewhere or on the same host, while a host that was cut off still computes.
std::string started_elsewhere(const std::vector<StartEvent>& events, const std::string& job, const std::string& host,
                              int64_t requeues);

// The job that has the run now or next: the job of the newest submit, start or queued. Empty: no job was submitted.
std::string newest_job(const std::vector<StartEvent>& events);

// The number of starts in a row, up to the newest, whose end or successor found no newer checkpoint than the start
// itself had. `step_now` is the newest checkpoint's step now, for a start without an end.
int64_t starts_without_progress(const std::vector<StartEvent>& events, int64_t step_now);

// What the script does after the ranks have ended.
enum class Next {
  kDone,     // the training is complete
  kAgain,    // start the ranks again, in this allocation
  kRequeue,  // ask the scheduler for another job
  kLeave,    // end; whoever asked for the end decides what follows
  kStop      // end; a person has to look
};
std::string_view name_of(Next next);  // "done", "again", "requeue", "leave", "stop"

struct RestartDecision {
  Next next;
  std::string why;
  int64_t wait_s =
      0;  // kAgain: pause before the next start, because a fault that ends each start at once may pass with time
  bool is_asked = false;  // kStop: by `hearth stop`
};

// How the ranks of a job ended.
struct Ended {
  std::string job;
  int64_t code = 0;                      // the launcher's exit code: 128 + signal if it was killed
  std::string signal = "none";           // "limit": the time limit came; "leave": somebody wants this job to end
                                         // "preempt": another job takes the nodes
                                         // "preflight": the nodes were checked, and the ranks did not start
                                         // "nodes": nodes do not start the program, or lack the run's files
                                         // or the build of most
  bool is_done = false;                  // RUN/done.json is there
  int64_t step = 0;                      // of the newest checkpoint
  std::vector<std::string> bad_nodes{};  // with "preflight" and "nodes": faulty nodes that can be left out
  std::string error{};                   // the first error of the ranks of this start: "WHAT: WHY"; empty: none
  bool disk_is_full = false;             // the error is about the disk of the run or of its checkpoints
  double lasted_s = 0;                   // since the start
  std::string fault{};                   // why the first of bad_nodes is off: "NODE: WHY"; empty: not known
};

// Whether the error says that the disk of one of these folders is full. A full local disk of one node does not count.
bool says_full_disk(std::string_view error, const std::vector<Path>& folders);

// The decision. `events` are those before this end. Success is done.json and not the launcher's exit code: srun returns
// 0 after the death of a node. Faults that a person has to mend stop the run: wrong input, damaged data, a full disk, a
// bug. After any other fault the ranks start again, if necessary without the faulty nodes. A crash loop is found from
// checkpoints: more than `max_restarts` starts in a row without a newer one.
RestartDecision decide(const std::vector<StartEvent>& events, const Ended& ended, int64_t max_restarts);

}  // namespace hearth::cluster
