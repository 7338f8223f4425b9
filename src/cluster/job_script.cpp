// SPDX-License-Identifier: Apache-2.0
#include "cluster/job_script.h"

#include <fmt/format.h>

#include "base/log.h"
#include "cluster/job_log.h"
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

// No here-strings and no here-documents: bash before 5.1 writes them into /tmp, and newer ones do if they are long. A
// full disk there would make them empty.
constexpr std::string_view kFunctions = R"(
ranks=         # the process that starts the ranks
signal=none    # limit: the time limit comes (USR2); leave: somebody wants this job to end (TERM)
signals=0
pass_on() {
  signal=$1
  signals=$((signals + 1))
  [ -z "$ranks" ] || kill -s "$2" "$ranks" 2>/dev/null
}
trap 'pass_on limit USR2' USR2
trap 'pass_on leave TERM' TERM

# The exit code of the ranks. A signal ends wait early: then it waits again.
await_ranks() {
  local seen last
  code=4
  while true; do
    seen=$signals
    wait "$ranks"
    last=$?
    [ "$last" = 127 ] || code=$last    # 127: it was waited for already
    [ "$seen" != "$signals" ] || break
  done
  ranks=
}

# Seconds until a signal comes. TERM ends sleep, too.
pause() {
  sleep "$1" &
  wait $!
}

# The answer of `hearth job`. Its disk may be away for a while: then it is asked again. 75 is an answer.
ask() {
  local seconds last
  for seconds in 5 20 60 0; do
    tell "$@"
    last=$?
    case $last in 0 | 75) return "$last" ;; esac
    if [ "$signal" != none ] || [ "$seconds" = 0 ]; then return "$last"; fi
    pause "$seconds"
  done
}
)";

constexpr std::string_view kSlurmFunctions = R"(
answered=yes    # by a node of the job, when it was asked last
fine=()         # the nodes that can run it, when they were asked last

# Which nodes of the job start the program and find the run's files, with the build and content that most nodes have, in
# the folder where the token is? Those that do not, and are not all, are written to bad_nodes. A job of one node may get
# another one.
look_at_nodes() {
  local said compared word node others='' off='' token=.look-$job-$RANDOM$RANDOM
  local -A is_fine=()
  fine=()
  { : >"$run/$token"; } 2>/dev/null || token=
  said=$(try_nodes ${token:+--token "$token"})
  [ -z "$token" ] || rm -f "$run/$token"
  compared=$(printf '%s\n' "$said" | tell compare)
  [ -z "$compared" ] || said=$compared
  answered=no
  [ -z "$said" ] || answered=yes
  while read -r word node; do
    case $word in
      fine) is_fine[${node:-none}]=yes ;;
      off) off=$node ;;
    esac
  done < <(printf '%s\n' "$said")
  if [ "${#is_fine[@]}" = 0 ]; then
    [ "$answered" = no ] || fault=nodes
    [ "$SLURM_NNODES" != 1 ] || [ -z "$off" ] || echo "$off" >"$bad_nodes"
    return
  fi
  for node in $(scontrol show hostnames "$SLURM_JOB_NODELIST"); do
    if [ -n "${is_fine[$node]-}" ]; then fine+=("$node"); else others+=$node$'\n'; fi
  done
  # Where none of Slurm's names is that of a fine node, the nodes call themselves otherwise.
  if [ "${#fine[@]}" -gt 0 ] && [ -n "$others" ]; then
    printf %s "$others" >"$bad_nodes"
    fault=nodes
  fi
}

# Does another job take the nodes, after some time of grace? Slurm tells the ranks, and not this script.
is_preempted() {
  local facts
  facts=$(scontrol show job "$job") && [[ $facts = *JobState=RUNNING* && $facts = *PreemptTime=[0-9]* ]]
}

# The nodes that this job must not get, and those that were found off, as Slurm writes them.
nodes_to_leave_out() {
  local nodes
  nodes=$(squeue --noheader --jobs="$job" --format=%x)
  [ ! -s "$bad_nodes" ] || nodes+=${nodes:+,}$(paste --serial --delimiters=, "$bad_nodes")
  echo "$nodes${1:+${nodes:+,}$1}"
}

# Another job goes on: this one, back in the queue, or a new one where that is refused. A job in the queue can be told
# which nodes to leave out. Slurm ends this script meanwhile, so it passes over TERM. [NODE]: another one to leave out.
ask_for_next() {
  local next out
  trap - USR2
  trap '' TERM
  out=$(nodes_to_leave_out "${1-}")
  if [ "$requeue" = yes ] && scontrol requeue "$job"; then
    [ -z "$out" ] || scontrol update JobId="$job" ExcNodeList="$out"
    exit 0
  fi
  next=$(sbatch --parsable --dependency="afterany:$job" ${out:+--exclude="$out"} "$run/job.sh") || exit 4
  ask queued --next-job "${next%%;*}" ||
    printf '{"event":"queued","job":"%s","after":"%s"}\n' "${next%%;*}" "$job" >>"$run/starts.jsonl"
  exit 0
}

# `hearth job` gave no answer, but this code. If the program does not start on this node, the first of the job, another
# start does without it: at most so often as there may be restarts.
give_up() {
  local list=$run/logs/left_out-$job.txt times=$requeues
  [ "$1" -ge 126 ] || exit "$1"
  echo "$SLURMD_NODENAME" >>"$list" && times=$(wc --lines <"$list")
  [ "$times" -le "$max_restarts" ] || exit "$1"
  echo "hearth: node $SLURMD_NODENAME does not start the program: the next start leaves it out" >&2
  ask_for_next "$SLURMD_NODENAME"
}

# `hearth stop` asked for the end: Slurm calls the job cancelled, and not failed.
end_as_asked() {
  trap '' TERM
  scancel "$job"
  exit 0
}
)";

constexpr std::string_view kLocalFunctions = R"(
give_up() { exit "$1"; }
end_as_asked() { exit 0; }
)";

constexpr std::string_view kLoopBegin = R"(
number=0
while true; do
  number=$((number + 1))
  start=$requeues.$number
  ask before --checkpoints "$checkpoints" --max-restarts "$max_restarts" --start "$start" || give_up $?
  rm -f "$bad_nodes" "$run/logs/left_out-$job.txt"
  fault=none    # preflight: it found something; nodes: some cannot start the run
  code=75       # where a signal came meanwhile, nothing starts
)";

// The nodes of a job are checked once.
constexpr std::string_view kCheck = R"(  if [ "$checked" = no ] && [ "$signal" = none ]; then
    check_nodes &
    ranks=$!
    await_ranks
    if [ "$code" = 0 ]; then checked=yes; elif [ "$signal" = none ]; then fault=preflight; fi
  fi
)";

// Under Slurm the next start leaves out the nodes that are off. Those on which the program does not start would keep
// the others waiting, so they are found first.
constexpr std::string_view kLookAndCheck = R"(  if [ "$checked" = no ] && [ "$signal" = none ]; then
    look_at_nodes
    code=4
    if [ "$fault" = none ] && [ "$answered" = yes ]; then
      check_nodes &
      ranks=$!
      await_ranks
      if [ "$code" = 0 ]; then checked=yes; elif [ "$signal" = none ]; then fault=preflight; fi
    fi
  fi
)";

constexpr std::string_view kStart = R"([ "$signal" = none ]; then
    start_ranks &
    ranks=$!
    await_ranks
  fi
)";

// A node that was cut off does not reach Slurm, and waits long for each of its answers.
constexpr std::string_view kAskSlurm = R"(  if tell current; then
    if [ "$signal" != limit ] && [ "$code" != 0 ] && is_preempted; then signal=preempt; fi
    if [ "$signal" = none ] && [ "$code" != 75 ] && [ ! -e "$run/done.json" ] && [ ! -s "$bad_nodes" ]; then
      look_at_nodes
    fi
  fi
)";

constexpr std::string_view kLoopEnd =
    R"(  what=$signal
  [ "$what" != none ] || what=$fault
  answer=$(ask after --checkpoints "$checkpoints" --max-restarts "$max_restarts" --start "$start" \
    --code "$code" --signal "$what" --bad-nodes "$bad_nodes") || give_up $?
  read -r next seconds < <(printf '%s\n' "$answer")
  case $next in
)";

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
  text += "bad_nodes=$run/bad_nodes.txt    # that the next start leaves out\n";
  text += slurm ? fmt::format("job=$SLURM_JOB_ID\nrequeues=${{SLURM_RESTART_COUNT:-0}}\nrequeue={}\n",
                              job.cluster.requeue ? "yes" : "no")
                : "job=local-$$\nrequeues=0\n";
  text += "export HEARTH_JOB=$job    # an older start of this run makes way for ranks that have it\n";
  text += fmt::format("export {}={}    # in the errors of what it asks; those of the ranks name their start\n",
                      kSpeakerVariable, shell_word(std::string(kScriptSpeaker)));
  text += surroundings(job);
  const std::string container = job.cluster.container.empty() ? "" : shell_words(job.cluster.container) + " ";
  const std::string hearth = container + shell_word(job.hearth.string());
  text += fmt::format("\ntell() {{ {} job \"$1\" \"$run\" --job \"$job\" --requeues \"$requeues\" \"${{@:2}}\"; }}\n",
                      hearth);
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
