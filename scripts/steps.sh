# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash disable=SC2034
# What every script here starts with: strict mode, the repository's root, and how a step is told. Sourced, not run.
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"

# One line per step: what happens, to what, how big it is.
say() { printf '== %s\n' "$*"; }

# fail CODE WHAT WHY FIX: the shape and the exit codes of src/base/error.h.
fail() {
  printf 'error: %s\n' "$2" >&2
  if [ -n "${3:-}" ]; then printf '  why: %s\n' "$3" >&2; fi
  if [ -n "${4:-}" ]; then printf '  fix: %s\n' "$4" >&2; fi
  exit "$1"
}

# The comment block at the top of the calling script, without its marks, is its help.
print_help() { sed -n '3,/^$/{s/^# \{0,1\}//p;}' "$0"; }

# The text of the quickstart, by its real path: Debian shows the same files under several names.
default_text() {
  local folder
  for folder in /usr/share/doc/python3*/html/_sources; do
    if [ -n "$(find -L "$folder" -name '*.rst.txt' -print -quit 2>/dev/null)" ]; then realpath "$folder"; return; fi
  done
  /usr/bin/python3 -c 'import sysconfig; print(sysconfig.get_paths()["stdlib"])'
}

# build PRESET [-DNAME=VALUE...] [targets...]: configures and builds build/PRESET; next to nothing when it is up to date.
build() {
  local preset="$1" log="$root/build/$1.log" settings=() targets=() argument
  shift
  for argument in "$@"; do
    case "$argument" in -D*) settings+=("$argument") ;; *) targets+=("$argument") ;; esac
  done
  mkdir -p "$root/build"
  if [ ${#settings[@]} -gt 0 ] || [ ! -f "$root/build/$preset/build.ninja" ]; then
    say "configure: build/$preset"
    (cd "$root" && cmake --preset "$preset" "${settings[@]}") >"$log" 2>&1 || {
      tail -n 20 "$log" >&2
      fail 2 "configure: cmake failed" "the lines above; all of them are in $log" "scripts/setup.sh, or remove build/$preset"
    }
  fi
  say "build: build/$preset, ${targets[*]:-everything} (minutes the first time)"
  # On a terminal ninja keeps one moving line; elsewhere only the end of a failed build is shown.
  if [ -t 1 ]; then
    ninja -C "$root/build/$preset" "${targets[@]}" </dev/null || fail 5 "build: ninja failed" "the first lines with \"error\" above"
  else
    ninja -C "$root/build/$preset" "${targets[@]}" </dev/null >"$log" 2>&1 || {
      grep --max-count=20 --after-context=4 -E '(error|Error): |^FAILED' "$log" >&2 || tail -n 20 "$log" >&2
      fail 5 "build: ninja failed" "all its lines are in $log"
    }
  fi
}
