// SPDX-License-Identifier: Apache-2.0
#include "cluster/run_status.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <csignal>

#include "base/error.h"
#include "base/program.h"
#include "base/quantity.h"
#include "base/text.h"
#include "checkpoint/retain.h"
#include "cluster/job_log.h"
#include "config/derived.h"
#include "config/load.h"
#include "metrics/jsonl.h"
#include "runfolder/names.h"

namespace hearth::cluster {
namespace {

constexpr std::string_view kLocalJob = "local-";
constexpr size_t kRecentSteps = 20;
constexpr size_t kLittleSpace = size_t{1} << 20;

std::optional<int64_t> whole_number(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// The words with which a process of this host was started; empty: it does not run.
std::string command_of(int64_t process) {
  try {
    return read_file(fmt::format("/proc/{}/cmdline", process));
  } catch (const Error&) {
    return {};
  }
}

// Steps, checkpoints and the run's length, as far as the folder shows them. Returns the records of all steps.
std::vector<metrics::StepRecord> read_progress(RunStatus& status) {
  Path checkpoints = status.run / "checkpoints";
  double tokens_of_step = 0;
  if (path_exists(status.run / runfolder::kRunFile)) {
    const config::LoadResult loaded = config::read_run(status.run / runfolder::kRunFile, {});
    if (!loaded.syntax_error && loaded.problems.empty()) {
      checkpoints = loaded.config.checkpoint_folder();
      tokens_of_step = static_cast<double>(config::tokens_per_step(loaded.config));
      if (loaded.config.training.epochs == 0) status.steps = config::total_steps(loaded.config, 0);
    }
  }
  const std::vector<int64_t> steps = checkpoint::list_steps(checkpoints);
  if (!steps.empty()) status.checkpoint_step = steps.back();
  const Path metrics = status.run / runfolder::kMetricsFile;
  std::vector<metrics::StepRecord> records = metrics::read_metrics(metrics);
  if (records.empty()) return records;
  std::error_code gone;
  const auto written = std::filesystem::last_write_time(metrics, gone);
  if (!gone)
    status.seconds_since_step =
        std::max(0.0, std::chrono::duration<double>(std::filesystem::file_time_type::clock::now() - written).count());
  const metrics::StepRecord& last = records.back();
  status.step = last.step;
  status.loss = last.loss;
  status.tokens = last.tokens;
  for (auto record = records.rbegin(); record != records.rend() && !status.validation_loss; ++record)
    status.validation_loss = record->validation_loss;
  std::vector<double> rates;
  for (auto record = records.rbegin(); record != records.rend() && rates.size() < kRecentSteps; ++record)
    if (record->tokens_per_second > 0) rates.push_back(record->tokens_per_second);
  if (rates.empty()) return records;
  std::nth_element(rates.begin(), rates.begin() + std::ssize(rates) / 2, rates.end());
  status.tokens_per_second = rates[rates.size() / 2];
  if (status.steps > status.step)
    status.seconds_left = static_cast<double>(status.steps - status.step) * tokens_of_step / status.tokens_per_second;
  return records;
}

// The reason of the newest end; empty if there is no end after the newest start.
std::string reason_of_end(const std::vector<StartEvent>& events) {
  for (auto e = events.rbegin(); e != events.rend() && e->name != "start" && e->name != "submit"; ++e)
    if (e->name == "end") return e->why;
  return {};
}

bool stop_was_asked(const std::vector<StartEvent>& events) {
  for (auto e = events.rbegin(); e != events.rend() && e->name != "submit"; ++e)
    if (e->name == "stop") return true;
  return false;
}

// Whether nothing goes on with the run, whatever the scheduler says.
bool is_over(const RunStatus& status) {
  if (path_exists(status.run / runfolder::kDoneFile)) return true;
  const std::vector<StartEvent>& events = status.events;
  return !events.empty() && events.back().name == "end" && events.back().next == name_of(Next::kStop);
}

// Whether the training that has the lease lives, as far as this host can see. A process of another host shows it by
// its beats. The first one is that it has taken the lease.
bool trains(const runfolder::LeaseHolder& holder, const Path& run) {
  constexpr double kSilence_s = 5 * runfolder::kBeat_s;
  if (holder.host == host_name()) return holder.runs_here();
  return !holder.ended && runfolder::seconds_since_beat(run) < kSilence_s;
}

void judge(RunStatus& status, RunState state, std::string why = {}) {
  status.state = state;
  status.why = std::move(why);
}

// A training that no job of the run has: true if there is one, which lives.
bool finds_holder(RunStatus& status) {
  std::optional<runfolder::LeaseHolder> holder = runfolder::read_lease(status.run);
  if (!holder || !trains(*holder, status.run)) return false;
  std::string why = fmt::format("process {} on {}, since {}", holder->process, holder->host, holder->time);
  if (!status.job.empty() && holder->job == status.job)
    why = fmt::format("the script of job {} was killed, and its ranks train on: {}", status.job, why);
  judge(status, RunState::kRunning, std::move(why));
  status.holder = std::move(holder);
  return true;
}

// A process that the script of a local job started. The environment says so: the script's children have other parents
// after its end.
std::optional<int64_t> process_of(const std::string& job) {
  const std::string variable = fmt::format("HEARTH_JOB={}", job);
  std::error_code error;
  for (std::filesystem::directory_iterator at("/proc", error), end; !error && at != end; at.increment(error)) {
    const std::optional<int64_t> process = whole_number(at->path().filename().string());
    if (!process || command_of(*process).find("hearth") == std::string::npos) continue;
    try {
      const std::string variables = '\0' + read_file(at->path() / "environ");
      if (variables.find('\0' + variable + '\0') != std::string::npos) return process;
    } catch (const Error&) {  // another user's, or it ended meanwhile
    }
  }
  return std::nullopt;
}

// Ranks of a local job that start, without their script: true if there are some.
bool finds_orphan(RunStatus& status) {
  if (!reason_of_end(status.events).empty()) return false;
  status.orphan = process_of(status.job);
  if (!status.orphan) return false;
  judge(status, RunState::kRunning,
        fmt::format("the script of job {} was killed, and its ranks start: process {}", status.job, *status.orphan));
  return true;
}

// The state of a run whose job is not active any more.
void judge_ended(RunStatus& status) {
  if (path_exists(status.run / runfolder::kDoneFile)) return judge(status, RunState::kDone);
  if (finds_holder(status)) return;
  judge(status, RunState::kStopped, reason_of_end(status.events));
  if (status.why.empty() && stop_was_asked(status.events)) status.why = "`hearth stop` asked for it";
  if (!status.why.empty()) return;
  status.why = fmt::format("job {} ended without a word", status.job);
  // A cancelled job still has the reason for which it waited.
  const bool says_why = status.slurm && !status.slurm->reason.empty() && !status.slurm->state.starts_with("CANCELLED");
  if (status.slurm)
    status.why = fmt::format("Slurm says {}{} of job {}", status.slurm->state,
                             says_why ? fmt::format(" ({})", status.slurm->reason) : "", status.job);
  if (const std::string error = newest_error(read_job_log(status.run, status.job)); !error.empty())
    status.why += "; its log's first error: " + error;
  std::error_code unknown;  // the job's script could not write its reason either
  if (const auto space = std::filesystem::space(status.run, unknown); !unknown && space.available < kLittleSpace)
    status.why += fmt::format("; the run's disk has {} left", format_bytes(static_cast<int64_t>(space.available)));
}

// The state of a run that was never submitted.
void judge_by_lease(RunStatus& status) {
  if (finds_holder(status)) return;
  const std::optional<runfolder::LeaseHolder> lease = runfolder::read_lease(status.run);
  if (path_exists(status.run / runfolder::kDoneFile)) return judge(status, RunState::kDone);
  if (!lease) return judge(status, status.step > 0 ? RunState::kStopped : RunState::kNothing);
  if (lease->ended) return judge(status, RunState::kStopped, "the training ended before its last step");
  if (lease->host == host_name())
    return judge(status, RunState::kStopped, "the training of this host ended before its last step");
  judge(status, RunState::kUnknown,
        fmt::format("it trained on {}, process {}, and shows no sign of life", lease->host, lease->process));
}

// The state of a run whose newest job is a process of a host.
void judge_local_job(RunStatus& status) {
  if (local_job_runs(status.job, status.run)) return judge(status, RunState::kRunning);
  if (finds_holder(status) || finds_orphan(status)) return;  // its script was killed
  const auto newest = std::find_if(status.events.rbegin(), status.events.rend(),
                                   [&status](const StartEvent& e) { return e.job == status.job; });
  if (newest->host == host_name() || !reason_of_end(status.events).empty()) return judge_ended(status);
  judge(status, RunState::kUnknown, fmt::format("its job runs on {}: ask there", newest->host));
}

// What helps a job for which too few nodes are left. Slurm needs both numbers: NumNodes alone changes nothing.
std::string advice_for_fewer_nodes(const RunStatus& status) {
  std::string fewer;
  for (const StartEvent& e : status.events)
    if (e.name == "submit")
      fewer = e.nodes <= 1 ? ""
                           : fmt::format(
                                 "fewer will do where parallelism.data_parallel_shard_degree is -1: scontrol update "
                                 "JobId={} NumNodes=N NumTasks=M, where M is {} times N; else ",
                                 status.job, e.ranks / e.nodes);
  return fewer + "hearth stop it, then submit it anew";
}

void judge_slurm_job(RunStatus& status) {
  const SlurmAnswer answer = ask_slurm(status.job);
  status.slurm = answer.job;
  if (!status.slurm || !status.slurm->is_active()) {
    if (answer.silence.empty() || is_over(status)) return judge_ended(status);
    return judge(status, RunState::kUnknown, answer.silence);
  }
  if (!status.slurm->nodes.empty()) return judge(status, RunState::kRunning);
  judge(status, RunState::kQueued, status.slurm->reason);
  if (status.why == "BadConstraints")  // Slurm waits on, for nodes that it does not have
    status.why += ": too few nodes are left for it; " + advice_for_fewer_nodes(status);
}

}  // namespace

std::optional<int64_t> local_process(const std::string& job) {
  if (!job.starts_with(kLocalJob)) return std::nullopt;
  return whole_number(std::string_view(job).substr(kLocalJob.size()));
}

bool local_job_runs(const std::string& job, const Path& run) {
  const std::optional<int64_t> process = local_process(job);
  return process && command_of(*process).find((run / "job.sh").string()) != std::string::npos;
}

std::string_view name_of(RunState state) {
  constexpr std::array<std::string_view, 6> kNames = {"nothing", "queued", "running", "done", "stopped", "unknown"};
  return kNames[static_cast<size_t>(state)];
}

RunStatus run_status(const Path& run) {
  if (!folder_exists(run))
    throw user_error(fmt::format("there is no run folder {}", run.string()), {},
                     "give a run folder, or the run file that names it");
  RunStatus status{.run = run};
  status.events = read_starts(run);
  status.job = newest_job(status.events);
  const std::vector<metrics::StepRecord> records = read_progress(status);
  if (status.job.empty())
    judge_by_lease(status);
  else if (local_process(status.job))
    judge_local_job(status);
  else
    judge_slurm_job(status);
  if (status.state == RunState::kDone) status.seconds_left.reset();
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  status.goodput = goodput_of(status.events, records, status.state == RunState::kRunning, now.count());
  return status;
}

Path run_folder_of(const Path& given) {
  if (given.extension() != ".toml" || folder_exists(given)) return normal_path(given);
  return normal_path(absolute_path(config::load(given, {}).run_folder()));
}

}  // namespace hearth::cluster
