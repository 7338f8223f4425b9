// SPDX-License-Identifier: Apache-2.0
// The files of one run. This is the only place that names them.
//
//   RUN/run.lock        locked during a training; the kernel releases it with the process, however it ends
//   RUN/lease           which start writes here (runfolder/lease.h)
//   RUN/checkpoints/    step-00000100, ...; checkpoint.folder names another place
//   RUN/metrics.jsonl   a line for each report of a step
//   RUN/scores.jsonl    scores of checkpoints, a line each (report/run_extras.h)
//   RUN/tb/             event files for TensorBoard, with metrics.enable_tensorboard (metrics/tensorboard.h)
//   RUN/profile_traces/, RUN/memory_snapshot/   with [profiling] (train/profiler.h)
//   RUN/done.json       written after the last step is saved, removed when a longer training continues
//   RUN/config.toml     every key with its value, written by the newest start; a checkpoint has its own copy
//   RUN/plan.json       what was expected of memory and speed, by the newest start (run/plan_record.h)
//   RUN/starts.jsonl    what happened to the run's jobs (cluster/starts.h)
//   RUN/flight/         rank-00000.ring: the last calls of each of several ranks (trace/flight.h)
//   RUN/logs/           rank-00000.log: notes, warnings and the error of a failed training; output of jobs
//   RUN/old-1/          an earlier training that --restart moved aside: all of these but lock, lease and flight
#pragma once

namespace hearth::runfolder {

inline constexpr const char* kLockFile = "run.lock";
inline constexpr const char* kLeaseFile = "lease";
inline constexpr const char* kRunFile = "config.toml";
inline constexpr const char* kDoneFile = "done.json";  // {"step": 2000}
inline constexpr const char* kMetricsFile = "metrics.jsonl";
inline constexpr const char* kScoresFile = "scores.jsonl";
inline constexpr const char* kPlanFile = "plan.json";
inline constexpr const char* kStartsFile = "starts.jsonl";
inline constexpr const char* kFlightFolder = "flight";
inline constexpr const char* kLogsFolder = "logs";

}  // namespace hearth::runfolder
