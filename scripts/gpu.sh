#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# scripts/gpu.sh [--from DIR] [--out DIR] [--minutes N] [--only WORD...] [--torchtitan DIR] [--dry-run]: every test on
# the GPU, then the benchmarks.
#
#   scripts/gpu.sh   builds preset cuda here and runs; the minutes count from the end of the build
#   --from DIR       builds nothing: runs what --pack wrote to DIR on another machine, with the PyTorch of this machine's python3
#   --out DIR        where the results go (default runs/gpu): gpu_<date>_<device>.md, rewritten after each result, and gpu.log
#   --minutes N      everything ends within them (default 8); what no longer fits is left out and named
#   --only WORD...   only what has one of the words in its name; --dry-run shows the names
#   --torchtitan DIR the folder with its package (default .deps/torchtitan); without it, its tables are left out
#   --dry-run        prints the plan with every command, and runs nothing; needs no GPU
#   --pack DIR       builds preset cuda and writes to DIR the programs, the kernels and the tests that --from needs; needs nvcc
#                    and no GPU
#   --limit MIB      the most that --pack may write (default 72; a tar.gz of it has 26)
#   --help           this text
#
# Needs an NVIDIA GPU, PyTorch and Transformers. Ctrl-C and SIGTERM stop it; the page keeps every result so far.
# Exit codes: 0 everything that ran passed, 1 something failed (the page says what), 2 something only you can fix,
# 3 a file of the pack is damaged, 4 no GPU.

# shellcheck source-path=SCRIPTDIR source=steps.sh
source "$(dirname "${BASH_SOURCE[0]}")/steps.sh"

from="" pack="" out="$root/runs/gpu" torchtitan="$root/.deps/torchtitan" minutes=8 limit=72 dry_run=no only=()
while [ $# -gt 0 ]; do
  option="$1"
  shift
  case "$option" in
    --from | --pack | --out | --minutes | --limit | --torchtitan)
      [ $# -gt 0 ] || fail 2 "$option needs a value" "" "scripts/gpu.sh --help"
      case "$option" in
        --from) from="$(realpath --canonicalize-missing "$1")" ;;
        --pack) pack="$(realpath --canonicalize-missing "$1")" ;;
        --out) out="$(realpath --canonicalize-missing "$1")" ;;
        --torchtitan) torchtitan="$(realpath --canonicalize-missing "$1")" ;;
        --minutes) minutes="$1" ;;
        --limit) limit="$1" ;;
      esac
      shift ;;
    --only)
      while [ $# -gt 0 ] && [[ "$1" != --* ]]; do
        only+=("$1")
        shift
      done
      [ ${#only[@]} -gt 0 ] || fail 2 "--only needs at least one word" "" "scripts/gpu.sh --dry-run shows the names" ;;
    --dry-run) dry_run=yes ;;
    --help) print_help; exit 0 ;;
    *) fail 2 "gpu.sh does not know \"$option\"" "" "scripts/gpu.sh --help lists the options" ;;
  esac
done
for number in "$minutes" "$limit"; do
  if ! [[ "$number" =~ ^[0-9]+(\.[0-9]+)?$ && "$number" =~ [1-9] ]]; then
    fail 2 "--minutes and --limit: \"$number\" is not a number above 0"
  fi
done
if [ -n "$pack" ] && { [ -n "$from" ] || [ "$dry_run" = yes ]; }; then
  fail 2 "--pack runs nothing" "it only builds and copies" "leave out --from and --dry-run"
fi

cd "$root"
mapfile -t tests < <(python3 scripts/gpu.py tests)
programs=(hearth hearth-train hearth_cuda hearth_cuda_graph "${tests[@]}")
with_torch='import torch, transformers'

if [ -n "$pack" ]; then
  scripts/setup.sh
  build cuda "${programs[@]}"
  exec python3 scripts/gpu.py pack --build build/cuda --to "$pack" --limit "$limit"
fi

# The first GPU's name, driver and memory in MiB, as nvidia-smi prints them.
find_gpu() {
  local fix="run it on a machine with an NVIDIA GPU; --dry-run shows the plan, --pack DIR prepares what such a machine needs" seen
  command -v nvidia-smi >/dev/null || fail 4 "no GPU here" "there is no nvidia-smi: NVIDIA's driver is not installed" "$fix"
  seen="$(nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader,nounits 2>&1)" ||
    fail 4 "no GPU here" "nvidia-smi: $(paste --serial --delimiters=' ' <<<"$seen")" "$fix"
  [[ "$seen" == *,*,* ]] || fail 4 "no GPU here" "nvidia-smi lists no device" "$fix"
  sed -n 1p <<<"$seen"
}

run=(--out "$out" --minutes "$minutes" --torchtitan "$torchtitan" --only "${only[@]}")
if [ "$dry_run" = yes ]; then
  if [ -z "$from" ]; then say "build: build/cuda, ${programs[*]}"; fi
  run+=(--dry-run)
else
  gpu="$(find_gpu)"
  run+=(--gpu "$gpu")
fi
if [ -n "$from" ]; then exec python3 scripts/gpu.py run --from "$from" "${run[@]}"; fi
python=python3
if [ "$dry_run" = no ]; then
  if ! python3 -c "$with_torch" 2>/dev/null; then
    python=.deps/oracle/bin/python
    scripts/setup.sh --oracle
  else
    scripts/setup.sh
  fi
  build cuda "${programs[@]}"
fi
exec python3 scripts/gpu.py run --build build/cuda --python "$python" "${run[@]}"
