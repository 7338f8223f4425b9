# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034
# What the examples share: their options, the text, jobs with Slurm and without, and waits. Sourced, not run.
#
#   --out DIR        the folder for all that an example makes (default runs/NAME_example)
#   --cluster NAME   the cluster file of `hearth submit`: default examples/cluster.toml where Slurm answers, else local
#   --push ORG/NAME  at the end, upload the weights to this repository of the Hub (HF_TOKEN may write)
#   --help           this text

# shellcheck source-path=SCRIPTDIR source=../scripts/steps.sh
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/steps.sh"
here="$(cd "$(dirname "$0")" && pwd)"
name="$(basename "$here")"
out="$root/runs/${name}_example" cluster="" push=""

while [ $# -gt 0 ]; do
  case "$1" in
    --help) print_help; sed -n '3,/^$/s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 0 ;;
    --out | --cluster | --push) [ $# -gt 1 ] || fail 2 "$1 needs a value" "" "run.sh --help lists the options" ;;&
    --out) out="$(realpath --canonicalize-missing "$2")" ;;
    --cluster) cluster="$2"; if [ -f "$2" ]; then cluster="$(realpath "$2")"; fi ;;
    --push) push="$2" ;;
    *) fail 2 "run.sh does not know \"$1\"" "" "run.sh --help lists the options" ;;
  esac
  shift 2
done

export PATH="$root/build/release/bin:$PATH"
command -v hearth >/dev/null ||
  fail 2 "there is no hearth" "it is neither built nor in PATH" "scripts/quickstart.sh builds it"
if [ -z "$cluster" ]; then
  if sinfo >/dev/null 2>&1; then cluster="$root/examples/cluster.toml"; else cluster=local; fi
fi
mkdir -p "$out/logs" || fail 2 "--out: cannot write in $out" "" "give another folder"
cd "$out"
cp "$here"/*.toml .

# Its arguments as one could type them.
typed() {
  local word words=()
  for word in "$@"; do
    case "$word" in *[!a-zA-Z0-9_.,:=/+@%-]*) word="${word@Q}" ;; esac
    words+=("$word")
  done
  printf '%s' "${words[*]}"
}

# Prints a command and runs it.
exec 3>&1
run() {
  printf '$ %s\n' "$(typed "$@")" >&3
  "$@"
}

# in_parts N hearth data build ...: builds a dataset in N parts, and merges them. With Slurm the parts are an array job.
in_parts() {
  local parts="$1" folder="" previous="" word
  shift
  for word in "$@"; do
    if [ "$previous" = --out ]; then folder="$word"; fi
    previous="$word"
  done
  if [ -f "$folder/manifest.json" ]; then return; fi
  if [ "$cluster" = local ] || ! command -v sbatch >/dev/null; then
    for part in $(seq "$parts"); do run "$@" --part "$part/$parts" >"logs/build-$(basename "$folder")-$part.log"; done
  else
    local task options
    options=(--wait --quiet "--array=1-$parts" "--job-name=build-$(basename "$folder")" --output=logs/%x-%a.log)
    task="$(typed "$@") --part \$SLURM_ARRAY_TASK_ID/$parts"
    printf '$ sbatch %s --wrap="%s"\n' "${options[*]}" "$task"
    if ! sbatch "${options[@]}" --wrap="$task"; then
      cat "logs/build-$(basename "$folder")"-*.log
      fail 5 "a part of $folder failed" "the lines above"
    fi
  fi
  run hearth data merge "$folder"
}

# The value of a key in `hearth status`: state, step, why. Nothing where nothing was submitted yet.
status_of() {
  { hearth status "$1" --json 2>/dev/null || true; } |
    { grep --only-matching --perl-regexp "^\{.*?\"$2\":\"?\K[^\",}]*" || true; }
}

# submit RUN.toml OPTIONS: as `hearth submit`. A script that is run again leaves alone what trains or is done.
submit() {
  case "$(status_of "$1" state)" in
    queued | running | done) say "$1: submitted already" ;;
    *) run hearth submit "$1" --cluster "$cluster" "${@:2}" ;;
  esac
}

# until_step RUN N: waits until the run has done N steps.
until_step() {
  while [ "$(status_of "$1" step)" -lt "$2" ]; do
    case "$(status_of "$1" state)" in queued | running) sleep 0.5 ;; *) break ;; esac
  done
}

# stop RUN: the run saves and ends; this waits for it.
stop() {
  if [ "$(status_of "$1" state)" = "done" ]; then return; fi
  run hearth stop "$1"
  until_state "$1" stopped
}

# Wait until no job of a run waits or trains any more, and fail if it ended in another way.
until_done() { until_state "$1" "done"; }
until_state() {
  local state
  while state="$(status_of "$1" state)"; [ "$state" = queued ] || [ "$state" = running ]; do sleep 0.5; done
  [ "$state" = "$2" ] || fail 5 "the run $1 is $state, not $2" "$(status_of "$1" why)" "hearth logs $1"
}

# What one looks at while a run trains.
watch_run() {
  run hearth status "$1"
  run hearth logs "$1" --lines 5
  run hearth report "$1" --out report.html
}

# What stands for a corpus here: Python's documentation (docs), and Python's own library (code).
find_text() {
  docs="$(realpath --quiet /usr/share/doc/python3*/html/_sources | sed -n 1p)" || true
  [ -f "$docs/library/index.rst.txt" ] ||
    fail 2 "there is no text: Python's documentation is not installed" "" "scripts/setup.sh --text"
  code="$(/usr/bin/python3 -c 'import sysconfig; print(sysconfig.get_paths()["stdlib"])')"
}
