// SPDX-License-Identifier: Apache-2.0
#include "cluster/slurm.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/text.h"
#include "hub/process.h"

namespace hearth::cluster {
namespace {

constexpr double kSlurmTimeout_s = 30;

std::string one_line(const std::string& text) {
  std::vector<std::string> lines;
  for (const std::string& line : split_lines(text))
    if (!line.empty()) lines.push_back(line);
  return join(lines, "; ");
}

hub::Outcome run_slurm(const Path& program, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), program.string());
  return hub::run_process({.words = std::move(arguments), .settings = {}, .timeout_s = kSlurmTimeout_s});
}

// The parts of the first line, "STATE|REASON|NODES|LEFT".
std::optional<SlurmJob> job_of_lines(const std::string& output) {
  const std::vector<std::string> lines = split_lines(output);
  if (lines.empty()) return std::nullopt;
  std::vector<std::string> parts = split(lines.front(), '|');
  parts.resize(4);
  // "CANCELLED by 0" in the accounting.
  SlurmJob job{
      .state = parts[0].substr(0, parts[0].find(' ')), .reason = parts[1], .nodes = parts[2], .left = parts[3]};
  if (job.reason == "None") job.reason.clear();
  if (job.left == "INVALID" || job.left == "UNLIMITED" || job.left == "NOT_SET") job.left.clear();
  return job.state.empty() ? std::nullopt : std::optional(job);
}

}  // namespace

bool SlurmJob::is_active() const {
  constexpr std::array<std::string_view, 9> kActive = {"PENDING",     "RUNNING",      "COMPLETING",
                                                       "CONFIGURING", "SUSPENDED",    "REQUEUED",
                                                       "RESIZING",    "REQUEUE_HOLD", "STOPPED"};
  return std::find(kActive.begin(), kActive.end(), state) != kActive.end();
}

std::string submit_batch(const Path& script, const std::string& cluster) {
  const Path sbatch = hub::find_program("sbatch");
  if (sbatch.empty())
    throw user_error("there is no sbatch on this host",
                     fmt::format("the cluster file {} says that Slurm runs jobs", cluster),
                     fmt::format("submit on a login node of the cluster, with {}; or --cluster local trains on this "
                                 "host",
                                 script.string()));
  const hub::Outcome outcome = run_slurm(sbatch, {"--parsable", script.string()});
  if (outcome.timed_out)
    throw Error(ExitCode::kHardware, fmt::format("sbatch gave no answer within {:.0f} s", kSlurmTimeout_s), {},
                "see with squeue whether the job is there, then submit again");
  if (outcome.errors.find("Unable to contact slurm controller") != std::string::npos)
    throw Error(ExitCode::kHardware, "Slurm's controller does not answer", one_line(outcome.errors),
                "submit again when it does");
  if (outcome.exit_code != 0)
    throw user_error(
        "sbatch refused the job", one_line(outcome.errors),
        fmt::format("correct the cluster file {} or the options; the script is {}", cluster, script.string()));
  const std::vector<std::string> lines = split_lines(outcome.output);
  std::string job = lines.empty() ? "" : lines.back().substr(0, lines.back().find(';'));  // "12;cluster"
  if (job.empty() || job.find_first_not_of("0123456789") != std::string::npos)
    throw Error(ExitCode::kHardware,
                fmt::format("sbatch did not say the job's number, but \"{}\"", one_line(outcome.output)), {},
                "see with squeue whether the job is there");
  return job;
}

SlurmAnswer ask_slurm(const std::string& job) {
  SlurmAnswer answer;
  if (const Path squeue = hub::find_program("squeue"); squeue.empty()) {
    answer.silence = "there is no squeue on this host";
  } else {
    const hub::Outcome outcome =
        run_slurm(squeue, {"--noheader", "--states=all", "--jobs=" + job, "--format=%T|%r|%N|%L"});
    const bool is_unknown = outcome.errors.find("Invalid job id") != std::string::npos;
    if (outcome.timed_out)
      answer.silence = fmt::format("squeue gave no answer within {:.0f} s", kSlurmTimeout_s);
    else if (outcome.exit_code != 0 && !is_unknown)
      answer.silence = "squeue says: " + one_line(outcome.errors);
    else if (outcome.exit_code == 0)
      answer.job = job_of_lines(outcome.output);
    if (answer.job) return answer;
  }
  if (const Path sacct = hub::find_program("sacct"); !sacct.empty()) {
    const hub::Outcome outcome = run_slurm(
        sacct, {"--noheader", "--parsable2", "--allocations", "--jobs=" + job, "--format=State,Reason,NodeList"});
    if (outcome.exit_code == 0) answer.job = job_of_lines(outcome.output);
    if (answer.job) answer.silence.clear();
  }
  return answer;
}

void cancel_slurm_job(const std::string& job, const std::string& script_signal) {
  const Path scancel = hub::find_program("scancel");
  if (scancel.empty())
    throw user_error("there is no scancel on this host", fmt::format("job {} is one of Slurm's", job),
                     "stop it on a login node of the cluster");
  std::vector<std::string> words;
  if (!script_signal.empty()) words = {"--batch", "--signal=" + script_signal};
  words.push_back(job);
  const hub::Outcome outcome = run_slurm(scancel, words);
  if (outcome.exit_code != 0)
    throw Error(ExitCode::kHardware, fmt::format("scancel did not reach job {}", job), one_line(outcome.errors),
                fmt::format("scancel {}", job));
}

void requeue_without(const std::string& job, const std::vector<std::string>& nodes) {
  for (const char* program : {"scontrol", "squeue"})
    if (hub::find_program(program).empty())
      throw user_error(fmt::format("there is no {} on this host", program),
                       fmt::format("job {} cannot be told which nodes to leave out", job),
                       fmt::format("hearth submit --exclude {}", join(nodes, ",")));
  // A shell, because TERM comes between the two steps, and they have to pass over it.
  const std::string script =
      "trap '' TERM; before=$(squeue --noheader --jobs=\"$0\" --format=%x) && scontrol requeue \"$0\" && "
      "scontrol update JobId=\"$0\" ExcNodeList=\"${before:+$before,}$1\"";
  const hub::Outcome outcome = run_slurm("/bin/sh", {"-c", script, job, join(nodes, ",")});
  if (outcome.exit_code != 0)
    throw Error(ExitCode::kHardware, fmt::format("Slurm did not put job {} back into the queue", job),
                one_line(outcome.errors), fmt::format("submit it again without {}", join(nodes, ",")));
}

}  // namespace hearth::cluster
