// SPDX-License-Identifier: Apache-2.0
// The parts of a job's script that are the same in each: functions, then the loop. job_script.cpp puts them together,
// and defines what they call: tell, start_ranks, check_nodes and try_nodes.
#pragma once

#include <string_view>

namespace hearth::cluster {

// No here-strings and no here-documents: bash before 5.1 writes them into /tmp, and newer ones do if they are long. A
// full disk there would make them empty.
inline constexpr std::string_view kFunctions = R"(
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

tell_start() {
  tell before --checkpoints "$checkpoints" --max-restarts "$max_restarts" --start "$start"
}
tell_end() {
  local what=$signal
  [ "$what" != none ] || what=$fault
  tell after --checkpoints "$checkpoints" --max-restarts "$max_restarts" --start "$start" --code "$code" \
    --signal "$what" ${off:+--off-nodes "$off"}
}

# Sets answer: what `hearth job` says to one of these. Its disk may be away for a while: then it is asked again. 75 is an
# answer.
ask() {
  local seconds last
  for seconds in 5 20 60 0; do
    answer=$("$@")
    last=$?
    case $last in 0 | 75) return "$last" ;; esac
    if [ "$signal" != none ] || [ "$seconds" = 0 ]; then break; fi
    pause "$seconds"
  done
  ask_elsewhere "$last" "$@"
}
)";

inline constexpr std::string_view kSlurmFunctions = R"(
answered=yes    # by a node of the job, when it was asked last
fine=()         # the nodes that can run it, when they were asked last
via=()          # starts `hearth job` on another node, where this one does not find the run's files
host=$(uname -n)

# Which nodes of the job start the program and find the run's files, with the build and content that most nodes have, in
# the folder where the token is? Those that do not, and are not all, are left out. A job of one node may get another one.
look_at_nodes() {
  local said compared word node alone='' token=.look-$job-$RANDOM$RANDOM
  local -A is_fine=()
  fine=()
  off=
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
      off) alone=$node ;;
    esac
  done < <(printf '%s\n' "$said")
  if [ "${#is_fine[@]}" = 0 ]; then
    [ "$answered" = no ] || fault=nodes
    [ "$SLURM_NNODES" != 1 ] || off=$alone
    return
  fi
  for node in $(scontrol show hostnames "$SLURM_JOB_NODELIST"); do
    if [ -n "${is_fine[$node]-}" ]; then fine+=("$node"); else off+=${off:+,}$node; fi
  done
  # Where none of Slurm's names is that of a fine node, the nodes call themselves otherwise.
  [ "${#fine[@]}" -gt 0 ] || off=
  [ -z "$off" ] || fault=nodes
}

is_off() { [[ ,$off, = *",$1,"* ]]; }

# The first node of the job, where this script runs, may lose the run's files while another one has them. That one
# answers then, and the next start leaves this one out. CODE: the answer here.
ask_elsewhere() {
  local last=$1
  if [ "$last" -ge 126 ] || [ "$signal" = leave ] || [ "${#via[@]}" -gt 0 ]; then return "$last"; fi
  [ -n "$off" ] || look_at_nodes
  if ! is_off "$SLURMD_NODENAME" || [ "${#fine[@]}" = 0 ]; then return "$last"; fi
  echo "hearth: node $SLURMD_NODENAME cannot use the run's files: ${fine[0]} answers for it" >&2
  via=(timeout --kill-after=10 150 srun --overlap --nodes=1 --ntasks=1 --ntasks-per-node=1 --nodelist="${fine[0]}")
  answer=$("${@:2}")
}

# Does another job take the nodes, after some time of grace? Slurm tells the ranks, and not this script.
is_preempted() {
  local facts
  facts=$(scontrol show job "$job") && [[ $facts = *JobState=RUNNING* && $facts = *PreemptTime=[0-9]* ]]
}

# Another job goes on: this one, back in the queue, or a new one where that is refused. A job in the queue can be told
# which nodes to leave out, besides those of before. Slurm ends this script meanwhile, so it passes over TERM.
ask_for_next() {
  local next out
  trap - USR2
  trap '' TERM
  out=$(squeue --noheader --jobs="$job" --format=%x)
  [ -z "$off" ] || out+=${out:+,}$off
  if [ "$requeue" = yes ] && scontrol requeue "$job"; then
    [ -z "$out" ] || scontrol update JobId="$job" ExcNodeList="$out"
    exit 0
  fi
  next=$(sbatch --parsable --dependency="afterany:$job" ${out:+--exclude="$out"} "$run/job.sh") || exit 4
  ask tell queued --next-job "${next%%;*}" ||
    printf '{"event":"queued","job":"%s","after":"%s"}\n' "${next%%;*}" "$job" >>"$run/starts.jsonl"
  exit 0
}

# `hearth job` gave no answer, but this code. If this node, the first of the job, does not start the program or lacks the
# run's files, another start does without it: at most so often as there may be restarts.
give_up() {
  local list=$run/logs/left_out-$job.txt times=$requeues why="does not start the program"
  if [ "$1" -lt 126 ]; then
    why="cannot use the run's files"
    if [ "$1" = 4 ] || ! is_off "$SLURMD_NODENAME"; then exit "$1"; fi    # 4: the disk is full, or fails
  fi
  [ "$requeue" = yes ] || times=$((max_restarts + 1))    # a chain of jobs is counted by the list alone
  { echo "$SLURMD_NODENAME" >>"$list"; } 2>/dev/null && times=$(wc --lines <"$list")
  [ "$times" -le "$max_restarts" ] || exit "$1"
  echo "hearth: node $SLURMD_NODENAME $why: the next start leaves it out" >&2
  is_off "$SLURMD_NODENAME" || off+=${off:+,}$SLURMD_NODENAME
  ask_for_next
}

# `hearth stop` asked for the end: Slurm calls the job cancelled, and not failed.
end_as_asked() {
  trap '' TERM
  scancel "$job"
  exit 0
}
)";

inline constexpr std::string_view kLocalFunctions = R"(
ask_elsewhere() { return "$1"; }
give_up() { exit "$1"; }
end_as_asked() { exit 0; }
)";

inline constexpr std::string_view kLoopBegin = R"(
number=0
while true; do
  number=$((number + 1))
  start=$requeues.$number
  fault=none    # preflight: it found something; nodes: some cannot start the run
  off=          # those, with a comma between two
  ask tell_start || give_up $?
  rm -f "$run/logs/left_out-$job.txt"
  code=75       # where a signal came meanwhile, nothing starts
  [ "$fault" = none ] || code=4
)";

// The nodes of a job are checked once.
inline constexpr std::string_view kCheck = R"(  if [ "$checked" = no ] && [ "$signal" = none ]; then
    check_nodes &
    ranks=$!
    await_ranks
    if [ "$code" = 0 ]; then checked=yes; elif [ "$signal" = none ]; then fault=preflight; fi
  fi
)";

// Under Slurm the next start leaves out the nodes that are off. Those on which the program does not start would keep
// the others waiting, so they are found first.
inline constexpr std::string_view kLookAndCheck = R"(  if [ "$checked" = no ] && [ "$signal$fault" = nonenone ]; then
    look_at_nodes
    code=4
    if [ "$fault" = none ] && [ "$answered" = yes ]; then
      rm -f "$bad_nodes"
      check_nodes &
      ranks=$!
      await_ranks
      if [ "$code" = 0 ]; then checked=yes; elif [ "$signal" = none ]; then fault=preflight; fi
      [ ! -s "$bad_nodes" ] || off=$(paste --serial --delimiters=, "$bad_nodes")
    fi
  fi
)";

inline constexpr std::string_view kStart = R"([ "$signal$fault" = nonenone ]; then
    start_ranks &
    ranks=$!
    await_ranks
  fi
)";

// A node that was cut off does not reach Slurm, and waits long for each of its answers.
inline constexpr std::string_view kAskSlurm = R"(  if tell current; then
    if [ "$signal" != limit ] && [ "$code" != 0 ] && is_preempted; then signal=preempt; fi
    if [ "$signal" = none ] && [ "$code" != 75 ] && [ ! -e "$run/done.json" ] && [ -z "$off" ]; then
      look_at_nodes
    fi
  fi
)";

inline constexpr std::string_view kLoopEnd = R"(  ask tell_end || give_up $?
  read -r next seconds < <(printf '%s\n' "$answer")
  case $next in
)";

}  // namespace hearth::cluster
