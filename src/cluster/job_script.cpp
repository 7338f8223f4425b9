// SPDX-License-Identifier: Apache-2.0
#include "cluster/job_script.h"

#include <fmt/format.h>

#include "base/log.h"
#include "cluster/job_log.h"
#include "cluster/job_script_parts.h"
#include "runfolder/names.h"

namespace hearth::cluster {
namespace {

std::string shell_words(const std::vector<std::string>& words) {
  std::vector<std::string> quoted;
  for (const std::string& word : words) quoted.push_back(shell_word(word));
  return join(quoted, " ");
}

// In the names of Slurm's files % begins a pattern.
std::string without_patterns(std::string_view name) {
  std::string text;
  for (const char c : name) text += c == '%' ? "%%" : std::string(1, c);
  return text;
}

std::string commented(std::string_view text) {
  std::string lines = "# ";
  for (const char c : text) lines += c == '\n' ? "\n# " : std::string(1, c);
  return lines + "\n";
}

std::string header_lines(const JobScript& job) {
  const ClusterFile& c = job.cluster;
  std::string text;
  const auto option = [&text](std::string_view name, const std::string& value) {
    if (!value.empty()) text += fmt::format("#SBATCH --{}={}\n", name, shell_word(value));
  };
  const auto count = [&option](std::string_view name, int64_t value) {
    if (value > 0) option(name, fmt::format("{}", value));
  };
  option("job-name", job.run.filename().string());
  option("account", c.account);
  option("partition", c.partition);
  option("qos", c.qos);
  option("constraint", c.constraint);
  count("nodes", job.nodes);
  count("ntasks-per-node", c.launcher == "local" ? 1 : c.ranks_per_node);
  count("cpus-per-task", c.launcher == "local" ? c.cpus_per_rank * c.ranks_per_node : c.cpus_per_rank);
  if (c.gpus_per_node > 0)
    option(c.gpu_option, fmt::format("{}{}", c.gpu_option == "gres" ? "gpu:" : "", c.gpus_per_node));
  option("mem", c.memory_per_node);
  if (c.exclusive) text += "#SBATCH --exclusive\n";
  option("time", c.time_limit);
  option("signal", fmt::format("B:USR2@{}", c.signal_lead_seconds));
  text += c.requeue ? "#SBATCH --requeue\n" : "#SBATCH --no-requeue\n";
  text += "#SBATCH --open-mode=append\n";
  option("output", without_patterns((job.run / runfolder::kLogsFolder).string()) + "/job-%j.log");
  option("exclude", join(job.exclude, ","));
  for (const std::string& given : c.options) text += fmt::format("#SBATCH {}\n", given);
  return text;
}

std::string surroundings(const JobScript& job) {
  const ClusterFile& c = job.cluster;
  std::string text;
  if (!c.modules.empty()) text += fmt::format("module load {}\n", shell_words(c.modules));
  for (const auto& [name, value] : c.environment) text += fmt::format("export {}={}\n", name, shell_value(value));
  for (const std::string& line : c.commands) text += line + "\n";
  if (c.has_slurm() && c.cpus_per_rank > 0 && c.launcher == "srun")
    text += fmt::format(
        "# srun of Slurm 22.05 and newer does not take --cpus-per-task over from the job.\n"
        "export SRUN_CPUS_PER_TASK={}\n",
        c.cpus_per_rank);
  return text.empty() ? "" : fmt::format("\n# The surroundings of {}.\n{}", job.cluster.name, text);
}

std::string set_words(const JobScript& job) {
  std::string text;
  for (const std::string& set : job.sets) text += fmt::format(" --set {}", shell_word(set));
  return text;
}

// The command that starts the ranks.
std::string launch_words(const JobScript& job) {
  const ClusterFile& c = job.cluster;
  const std::string options = c.launcher_options.empty() ? "" : shell_words(c.launcher_options) + " ";
  // The job's nodes, and not those of hearth submit: a job in the queue may be given others (scontrol update).
  const std::string ranks =
      c.has_slurm() ? fmt::format("$((SLURM_NNODES * {}))", c.ranks_per_node) : fmt::format("{}", job.ranks());
  if (c.launcher == "srun")
    // A rank that fails does not end the others at once: they save what they have, and name what they saw.
    return fmt::format(
        "srun --kill-on-bad-exit=0 --wait=60 --nodes=\"$SLURM_NNODES\" --ntasks={} --ntasks-per-node={} {}", ranks,
        c.ranks_per_node, options);
  if (c.launcher != "mpirun") return "";
  return fmt::format("mpirun -n {} {}", ranks, options);
}

std::string train_words(const JobScript& job) {
  std::string text = fmt::format("train {}{}", shell_word(job.run_file.string()), set_words(job));
  if (job.cluster.launcher == "local") {
    text += fmt::format(" --ranks {}", job.ranks());
    if (!job.cluster.launcher_options.empty()) text += " " + shell_words(job.cluster.launcher_options);
  }
  return text;
}

std::string preflight_words(const JobScript& job) {
  std::string text = fmt::format("preflight {}{} --cluster {}", shell_word(job.run_file.string()), set_words(job),
                                 shell_word(job.cluster_argument));
  if (job.cluster.has_slurm()) text += " --bad-nodes \"$bad_nodes\"";
  if (job.cluster.launcher == "local") text += fmt::format(" --ranks {}", job.ranks());
  return text;
}

}  // namespace

std::string shell_value(std::string_view text) {
  if (text.find('$') == std::string_view::npos) return shell_word(text);
  std::string quoted = "\"";
  for (size_t i = 0; i < text.size(); ++i) {
    const bool command = text[i] == '$' && i + 1 < text.size() && text[i + 1] == '(';
    if (command || text[i] == '"' || text[i] == '\\' || text[i] == '`') quoted += '\\';
    quoted += text[i];
  }
  return quoted + "\"";
}

std::string job_script(const JobScript& job) {
  const bool slurm = job.cluster.has_slurm();
  std::string text = "#!/usr/bin/env bash\n";
  if (slurm) text += header_lines(job);
  text += commented("Written by: " + job.command);
  text +=
      "# It trains until RUN/done.json is there. RUN/starts.jsonl has a line for each start and end, with its reason.\n"
      "# shellcheck disable=SC2317 # functions that traps call\n\n";
  text += fmt::format("run={}\ncheckpoints={}\nmax_restarts={}    # in a row, without a new checkpoint\n",
                      shell_word(job.run.string()), shell_word(job.checkpoints.string()), job.max_restarts);
  if (slurm && job.preflight) text += "bad_nodes=$run/bad_nodes.txt    # of hearth preflight, one a line\n";
  text += slurm ? fmt::format("job=$SLURM_JOB_ID\nrequeues=${{SLURM_RESTART_COUNT:-0}}\nrequeue={}\n",
                              job.cluster.requeue ? "yes" : "no")
                : "job=local-$$\nrequeues=0\n";
  text += "export HEARTH_JOB=$job    # an older start of this run makes way for ranks that have it\n";
  text += fmt::format("export {}={}    # in the errors of what it asks; those of the ranks name their start\n",
                      kSpeakerVariable, shell_word(std::string(kScriptSpeaker)));
  text += surroundings(job);
  const std::string container = job.cluster.container.empty() ? "" : shell_words(job.cluster.container) + " ";
  const std::string hearth = container + shell_word(job.hearth.string());
  text +=
      fmt::format("\ntell() {{ {}{} job \"$1\" \"$run\" --job \"$job\" --requeues \"$requeues\"{} \"${{@:2}}\"; }}\n",
                  slurm ? "\"${via[@]}\" " : "", hearth, slurm ? " --host \"$host\"" : "");
  const std::string launch = fmt::format("{}=\"start $start\" exec {}{}", kSpeakerVariable, launch_words(job), hearth);
  text += fmt::format("start_ranks() {{ {} {}; }}\n", launch, train_words(job));
  if (job.preflight) text += fmt::format("check_nodes() {{ {} {}; }}\nchecked=no\n", launch, preflight_words(job));
  if (slurm)
    text += fmt::format(
        "try_nodes() {{ timeout --kill-after=10 150 srun --overlap --wait=60 --kill-on-bad-exit=0 "
        "--nodes=\"$SLURM_NNODES\" --ntasks=\"$SLURM_NNODES\" --ntasks-per-node=1 {} job node \"$run\" --job \"$job\" "
        "--run-file {}{} \"$@\"; }}\n",
        hearth, shell_word(job.run_file.string()), set_words(job));
  text += kFunctions;
  text += slurm ? kSlurmFunctions : kLocalFunctions;
  text += kLoopBegin;
  if (job.preflight) text += slurm ? kLookAndCheck : kCheck;
  text += job.preflight ? R"(  if [ "$checked" = yes ] && )" : "  if ";
  text += kStart;
  if (slurm) text += kAskSlurm;
  text += kLoopEnd;
  if (slurm) {
    text +=
        "    again) [ \"$answered\" = yes ] || ask_for_next ;;\n"
        "    requeue) ask_for_next ;;\n";
  } else {
    text += "    again | requeue) ;;\n";
  }
  text +=
      "    done) exit 0 ;;\n"
      "    cancel) end_as_asked ;;\n"
      "    *) exit \"$((code == 0 ? 4 : code))\" ;;\n"
      "  esac\n"
      "  pause \"$seconds\"\n"
      "done\n";
  return text;
}

}  // namespace hearth::cluster
