// SPDX-License-Identifier: Apache-2.0
// `hearth stop`: ends a run's job so that nothing goes on with it. Without --now the training saves first.
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <exception>
#include <string>
#include <thread>
#include <vector>

#include "base/text.h"
#include "cluster/job_script.h"
#include "cluster/run_status.h"
#include "cluster/slurm.h"
#include "cluster/starts.h"
#include "commands/commands.h"
#include "runfolder/lease_holder.h"

namespace hearth::commands {
namespace {

// To a process, or to a process group if `number` is negative. One that has ended has none.
void send_signal(int64_t number, int signal) {
  if (number >= -1 && number <= 1) return;
  if (::kill(static_cast<pid_t>(number), signal) != 0 && errno != ESRCH)
    throw system_error(fmt::format("cannot send a signal to process {}", std::abs(number)), errno);
}

[[noreturn]] void nothing_to_stop(const cluster::RunStatus& status) {
  if (status.state == cluster::RunState::kUnknown)
    throw Error(ExitCode::kHardware, fmt::format("it is not known whether {} runs", status.run.string()), status.why,
                "stop it where it runs, or when that is known");
  throw user_error(fmt::format("nothing of {} runs or waits", status.run.string()),
                   fmt::format("it is {}{}", name_of(status.state), status.why.empty() ? "" : ": " + status.why));
}

// Recorded before the signal: the script must find it when the ranks have ended. Once, although the script may be gone
// by then and the ranks are asked themselves, or the user asks again.
void record_stop(const cluster::RunStatus& status) {
  const std::vector<cluster::StartEvent> events = cluster::read_starts(status.run);
  if (!events.empty() && events.back().name == "stop" && events.back().job == status.job) return;
  cluster::append_start(status.run, {.name = "stop", .job = status.job});
}

// The words with which a process of this host was started; empty: it does not run.
std::string words_of(int64_t process) {
  try {
    return read_file(fmt::format("/proc/{}/cmdline", process));
  } catch (const Error&) {
    return {};
  }
}

// The process of `hearth train --ranks` that started this rank, and has the same words. Else 0.
int64_t starter_of(int64_t rank) {
  try {
    const std::string facts = read_file(fmt::format("/proc/{}/stat", rank));  // "12 (NAME) S 11 ..."
    const std::vector<std::string> after_name = split(facts.substr(facts.rfind(')') + 1), ' ');
    const int64_t parent = std::stoll(after_name.at(2));
    const std::string words = words_of(rank);
    return parent > 1 && !words.empty() && words_of(parent) == words ? parent : 0;
  } catch (const std::exception&) {
    return 0;  // it has ended
  }
}

// A training that was started by hand, or whose job's script was killed.
void stop_holder(const cluster::RunStatus& status, bool now) {
  const runfolder::LeaseHolder& holder = *status.holder;
  if (!holder.runs_here())
    throw Error(ExitCode::kHardware, fmt::format("{} trains on another host, without a job", status.run.string()),
                holder.place(),
                fmt::format("on {}: hearth stop {}", holder.host, cluster::shell_word(status.run.string())));
  const bool of_job = !status.job.empty() && holder.job == status.job;
  if (of_job) record_stop(status);
  // The script of a job without a scheduler was a process group with all that it started.
  const auto process = static_cast<pid_t>(holder.process);
  const bool has_group = of_job && cluster::local_process(status.job);
  // With --max-restarts it would start killed ranks again.
  if (const int64_t starter = now && !has_group ? starter_of(process) : 0; starter > 0) send_signal(starter, SIGKILL);
  send_signal(has_group ? -::getpgid(process) : process, now ? SIGKILL : SIGTERM);
}

// Ranks of a local job whose script was killed before they had the lease.
void stop_orphan(const cluster::RunStatus& status, bool now) {
  record_stop(status);
  send_signal(-::getpgid(static_cast<pid_t>(*status.orphan)), now ? SIGKILL : SIGTERM);
}

// The script sends its ranks the signal and waits for them. One that is being killed may still be seen, and does not.
void stop_script(const cluster::RunStatus& status, int64_t process) {
  send_signal(process, SIGUSR2);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  if (cluster::local_job_runs(status.job, status.run)) return;
  const cluster::RunStatus after = cluster::run_status(status.run);
  if (after.holder) stop_holder(after, false);
  if (after.orphan) stop_orphan(after, false);
}

}  // namespace

int stop(CommandLine& line) {
  Path run;
  bool now = false;
  line.positional("RUN", &run, "a run folder, or its run file");
  line.flag("--now", &now, "do not wait for a save: the run can go on from its newest checkpoint only");
  if (!line.parse()) return 0;
  const cluster::RunStatus status = cluster::run_status(cluster::run_folder_of(run));
  const bool queued = status.state == cluster::RunState::kQueued;
  if (!queued && status.state != cluster::RunState::kRunning) nothing_to_stop(status);
  const std::string saves = now ? "ends at once" : "saves and ends";
  if (status.holder || status.orphan) {
    status.holder ? stop_holder(status, now) : stop_orphan(status, now);
    fmt::print("the training {} (process {})\n", saves, status.holder ? status.holder->process : *status.orphan);
    return 0;
  }
  record_stop(status);
  if (const auto process = cluster::local_process(status.job)) {
    // The script and its ranks are a session, and so a process group, of their own.
    if (now)
      send_signal(-::getpgid(static_cast<pid_t>(*process)), SIGKILL);
    else
      stop_script(status, *process);
  } else {
    cluster::cancel_slurm_job(status.job, now || queued ? "" : "USR2");
  }
  fmt::print("job {} {}\n", status.job, queued ? "is cancelled: it had not begun" : saves);
  return 0;
}

}  // namespace hearth::commands
