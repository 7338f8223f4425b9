#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# scripts/quickstart.sh [--text PATH...] [--exclude GLOB] [--minutes N] [--out DIR]: trains a language model.
#
#   --text PATH...  your own text: files or folders (default: the sources of Python's manual, 11 MB)
#   --exclude GLOB  leave out files and folders of these folders, such as '*.png'; may be given several times
#   --minutes N     how long to train (default 4)
#   --out DIR       where data, checkpoints and results go (default runs/quickstart)
#   --help          this text
#
# Installs what is needed, builds, learns a tokenizer from the text, makes token shards of it, times a few steps to work
# out how many fit into the minutes, trains, evaluates on text that was held out, and writes a passage. Run again, it
# re-does only what is missing and goes on with the training where it stopped. Ctrl-C saves and stops.

# shellcheck source-path=SCRIPTDIR source=steps.sh
source "$(dirname "${BASH_SOURCE[0]}")/steps.sh"

text=() exclude=() minutes=4 out="$root/runs/quickstart"
while [ $# -gt 0 ]; do
  option="$1"
  shift
  case "$option" in
    --text)
      while [ $# -gt 0 ] && [[ "$1" != --* ]]; do
        [ -e "$1" ] || fail 2 "--text: there is no file or folder \"$1\""
        text+=("$(realpath "$1")")
        shift
      done
      [ ${#text[@]} -gt 0 ] || fail 2 "--text needs at least one file or folder" ;;
    --exclude)
      [ $# -gt 0 ] || fail 2 "--exclude needs a value" "" "scripts/quickstart.sh --help"
      exclude+=(--exclude "$1")
      shift ;;
    --minutes | --out)
      [ $# -gt 0 ] || fail 2 "$option needs a value" "" "scripts/quickstart.sh --help"
      if [ "$option" = --minutes ]; then minutes="$1"; else out="$(realpath --canonicalize-missing "$1")"; fi
      shift ;;
    --help) print_help; exit 0 ;;
    *) fail 2 "quickstart.sh does not know \"$option\"" "" "scripts/quickstart.sh --help lists the options" ;;
  esac
done
if ! [[ "$minutes" =~ ^[0-9]+(\.[0-9]+)?$ && "$minutes" =~ [1-9] ]]; then
  fail 2 "--minutes: \"$minutes\" is not a number of minutes above 0"
fi
if ! mkdir -p "$out" 2>/dev/null || [ ! -w "$out" ]; then fail 2 "--out: cannot write in $out" "" "give another folder"; fi

cd "$root"
shown="${out#"$root"/}"
vocab_size=4096
hearth=build/release/bin/hearth

prepare_text() {
  if [ -f "$out/text.list" ]; then
    if [ ${#text[@]} -gt 0 ] && [ "$(printf '%s\n' "${text[@]}")" != "$(cat "$out/text.list")" ]; then
      fail 2 "--text: $shown was made from other text" "a run keeps its text: $(paste --serial --delimiters=' ' "$out/text.list")" \
        "give another folder with --out"
    fi
    mapfile -t text <"$out/text.list"
  elif [ ${#text[@]} = 0 ]; then
    text=("$(default_text)")
  fi
  printf '%s\n' "${text[@]}" >"$out/text.list"
  if [ -f "$out/data/manifest.json" ]; then
    say "text: in $shown/data"
    return
  fi
  local only=("${exclude[@]}")
  if [[ "${text[0]}" == /usr/lib/python3* ]]; then only+=(--include "*.py"); fi
  say "tokenizer: learning $vocab_size tokens from ${text[*]}"
  "$hearth" tokenizer train --vocab-size "$vocab_size" --out "$out/tokenizer.json" --overwrite --validation 0.05 \
    "${only[@]}" "${text[@]}"
  say "text: ${text[*]}"
  "$hearth" data build --out "$out/data" --tokenizer "$out/tokenizer.json" --validation 0.05 "${only[@]}" "${text[@]}"
}

# Times a few steps of the run's own shape and writes run.toml with the number of steps that fits.
write_run() {
  if [ -f "$out/run.toml" ]; then
    steps="$(sed -n '/^\[training\]/,/^steps/s/^steps = \([0-9]*\).*/\1/p' "$out/run.toml")"
    say "run: $shown/run.toml is kept as it is: $steps steps"
    return
  fi
  say "run: timing a few steps"
  local timing step_s
  cp configs/quickstart.toml "$out/run.toml.new"
  timing="$("$hearth" bench step "$out/run.toml.new" --steps 8 --warmup 2 --json)"
  step_s="$(sed -n 's/.*"median_step_s": *\([0-9.]*\).*/\1/p' <<<"$timing" | cut --characters=1-6)"
  [ -n "$step_s" ] || fail 5 "run: hearth bench step said no median_step_s" "$timing"
  # 5% of the time goes into glances at the held-out text and checkpoints.
  steps="$(awk "BEGIN { steps = int(0.95 * 60 * $minutes / $step_s); print steps < 20 ? 20 : steps }")"
  sed -i "/^\[training\]/,/^steps/s/^steps = .*/steps = $steps  # $minutes minutes at $step_s s a step, measured once/" "$out/run.toml.new"
  mv "$out/run.toml.new" "$out/run.toml"
  say "run: $steps steps of $step_s s for $minutes minutes, written to $shown/run.toml"
}

if [ ${#text[@]} -gt 0 ] || [ -f "$out/text.list" ]; then scripts/setup.sh --no-arrow; else scripts/setup.sh --no-arrow --text; fi
build release hearth hearth-train
prepare_text
write_run

say "train: $shown/run.toml (Ctrl-C saves and stops)"
code=0
"$hearth" train "$out/run.toml" || code=$?
if [ "$code" = 75 ]; then
  say "stopped, and saved: run the same command again to go on"
fi
[ "$code" = 0 ] || exit "$code"

say "evaluate: the text that was held out (bits per byte: less is better)"
"$hearth" eval --checkpoint "$out" --ngram 1 --ngram 2 --ngram 3 --ngram 4 --ngram 5 --ngram 6
# A model of minutes spells 95 % of longer words right at this temperature, and 84 % at 0.7.
say "generate: a passage"
"$hearth" generate --checkpoint "$out" --prompt "The " --max-tokens 500 --temperature 0.5 --seed 1

cat <<END

== done. What to try next:
  another passage   $hearth generate --checkpoint $shown --prompt "If you" --max-tokens 300
  train for longer  $hearth train $shown/run.toml --set training.steps=$((steps * 2))
                    (goes on from the last checkpoint)
  your own text     scripts/quickstart.sh --text PATH --out runs/mine
  a bigger model    $hearth train $shown/run.toml --set job.dump_folder=../bigger \\
                      --set model.dim=320 --set model.n_heads=10 --set model.hidden_dim=896 --set model.n_layers=6
  look inside       $hearth inspect $(find "$shown/checkpoints" -maxdepth 1 -name 'step-*' | sort | tail -n 1)
END
