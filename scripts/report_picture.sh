#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# scripts/report_picture.sh [--out DIR] [--steps N] [--picture FILE]: two trainings, their report, its picture.
#
#   --out DIR       where data, runs and the page report.html go (default runs/report_picture)
#   --steps N       of each training (default 600; two cores take about ten minutes for both)
#   --picture FILE  where the picture goes (default docs/pictures/report.png, which docs/watch.md shows)
#   --help          this text
#
# Both trainings are those of configs/quickstart.toml, on the text of the quickstart. The second one has a quarter of
# the learning rate. `hearth submit` runs the first one on this host, and at half of its steps its process is killed:
# the report shows the restart and its reason. The second one is stopped by Ctrl-C, and goes on. What is there already
# is not made again. The picture needs Chromium and Playwright (scripts/setup.sh --oracle).

# shellcheck source-path=SCRIPTDIR source=steps.sh
source "$(dirname "${BASH_SOURCE[0]}")/steps.sh"

out="$root/runs/report_picture" steps=600 picture="$root/docs/pictures/report.png"
while [ $# -gt 0 ]; do
  case "$1" in
    --help) print_help; exit 0 ;;
    --out | --steps | --picture)
      [ $# -gt 1 ] || fail 2 "$1 needs a value" "" "scripts/report_picture.sh --help lists the options" ;;&
    --out) out="$(realpath --canonicalize-missing "$2")" ;;
    --picture) picture="$(realpath --canonicalize-missing "$2")" ;;
    --steps) steps="$2" ;;
    *) fail 2 "report_picture.sh does not know \"$1\"" "" "scripts/report_picture.sh --help lists the options" ;;
  esac
  shift 2
done
if ! [[ "$steps" =~ ^[0-9]+$ ]] || [ "$steps" -lt 100 ]; then
  fail 2 "--steps: \"$steps\" is not a number of steps from 100 on"
fi
mkdir -p "$out" || fail 2 "--out: cannot write in $out" "" "give another folder"
cd "$root"
hearth=build/release/bin/hearth
[ -x "$hearth" ] || fail 2 "there is no $hearth" "it is not built" "scripts/quickstart.sh builds it"

if [ ! -f "$out/data/manifest.json" ]; then
  text="$(default_text)"
  say "text: $text"
  "$hearth" tokenizer train --vocab-size 4096 --out "$out/tokenizer.json" --overwrite --validation 0.05 "$text"
  "$hearth" data build --out "$out/data" --tokenizer "$out/tokenizer.json" --validation 0.05 "$text"
fi

# write_run NAME LR: the run file of a training in a folder of that name.
write_run() {
  cat >"$out/$1.toml" <<END
# The model and data of configs/quickstart.toml.
[job]
dump_folder = "$1"
[model]
dim = 192
n_layers = 4
n_heads = 6
n_kv_heads = 6
hidden_dim = 512
enable_weight_tying = false
[optimizer]
lr = $2
weight_decay = 0.1
[lr_scheduler]
warmup_fraction = 0.03
decay_type = "cosine"
min_lr_factor = 0.02
[training]
seq_len = 256
local_batch_size = 8
steps = $steps
[data]
path = "data"
[validation]
freq = $((steps / 12))
steps = 8
generate = ["The function ", "If the argument is", "Raises "]
generate_tokens = 40
generate_temperature = 0.7
[checkpoint]
interval = $((steps / 6))
keep_latest_k = 3
[profiling]
enable_profiling = true
enable_memory_snapshot = true
profile_freq = $((steps / 3))
profiler_active = 2
END
}

has_step() { grep "^{\"step\": $2," "$out/$1/metrics.jsonl" >/dev/null 2>&1; }

# Waits until run $1 has step $2, or until it is done. A run that stopped is an error.
wait_for_step() {
  until has_step "$1" "$2" || [ -f "$out/$1/done.json" ]; do
    sleep 2
    if "$hearth" status "$out/$1" 2>/dev/null | grep '^state *stopped' >/dev/null && [ ! -f "$out/$1/done.json" ]; then
      fail 4 "the training $1 stopped" "" "hearth status $out/$1 says why"
    fi
  done
}

if [ ! -f "$out/lr-0.004/done.json" ]; then
  write_run lr-0.004 4e-3
  say "train: lr-0.004, killed after half of its steps"
  "$hearth" submit "$out/lr-0.004.toml" --cluster local
  if ! has_step lr-0.004 $((steps / 2)); then
    wait_for_step lr-0.004 $((steps / 2 + steps / 20))
    kill -KILL "$(sed -n 's/^process = //p' "$out/lr-0.004/lease")"
  fi
  wait_for_step lr-0.004 "done"
fi
if [ ! -f "$out/lr-0.001/done.json" ]; then
  write_run lr-0.001 1e-3
  say "train: lr-0.001, stopped by Ctrl-C at a third of its steps"
  if ! has_step lr-0.001 $((steps / 3)); then
    "$hearth" train "$out/lr-0.001.toml" &
    trainer=$!
    wait_for_step lr-0.001 $((steps / 3))
    kill -INT "$trainer"
    wait "$trainer" || [ $? = 75 ] || fail 4 "the training lr-0.001 did not stop well" "" "its last lines are above"
  fi
  "$hearth" train "$out/lr-0.001.toml"
fi

say "report: $out/report.html"
"$hearth" report "$out/lr-0.004" "$out/lr-0.001" --out "$out/report.html" --title "Python's manual, two learning rates"
python=python3
if [ -x .deps/oracle/bin/python ]; then python=.deps/oracle/bin/python; fi
"$python" scripts/page_picture.py "$out/report.html" "$picture" --width 1100 \
  --only runs,curves,chart-loss,chart-validation,chart-grad_norm,chart-lr,events
