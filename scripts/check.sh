#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# scripts/check.sh [--fix] [--all] [CHECK [FILE...]]: what is wrong with the sources, without building them.
#
#   format        clang-format 14 would not change a .cpp, .h or .cu (.clang-format)
#   rules         the rules of tests/tidy about sources: includes, sizes, 120 columns, spelling
#   shell         shellcheck, on every shell script
#   clang-tidy    the checks of .clang-tidy, on the sources that need no LibTorch
#   --fix         format changes the files that it would complain about
#   --all         clang-tidy reads tests and what needs LibTorch, too (30 minutes on two cores)
#   --help        this text
#
# Without a CHECK all four run, and each runs even where one before it failed. With FILE... a check looks at these files
# alone, and passes over those that are not its own; rules looks at all files in any case.
# scripts/setup.sh --checks installs the programs.
# Exit codes: 0 nothing found, 1 something found, 2 a wrong option or a missing program.

# shellcheck source-path=SCRIPTDIR source=steps.sh
source "$(dirname "${BASH_SOURCE[0]}")/steps.sh"

checks=() files=() fix=no all=no
for argument in "$@"; do
  case "$argument" in
    --fix) fix=yes ;;
    --all) all=yes ;;
    --help) print_help; exit 0 ;;
    -*) fail 2 "check.sh does not know \"$argument\"" "" "scripts/check.sh --help lists the options" ;;
    *)
      if [ ${#checks[@]} = 0 ]; then checks=("$argument"); continue; fi
      [ -f "$argument" ] || fail 2 "check.sh: there is no file \"$argument\""
      files+=("$(realpath --relative-to="$root" "$argument")") ;;
  esac
done
case "${checks[0]:-format}" in
  format | rules | shell | clang-tidy) ;;
  *) fail 2 "check.sh knows no check \"${checks[0]}\"" "" "scripts/check.sh --help lists the checks" ;;
esac
if [ ${#checks[@]} = 0 ]; then checks=(format rules shell clang-tidy); fi
cd "$root"

# Another version of clang-format formats otherwise, and another one of clang-tidy finds other things.
llvm_14() {  # clang-format or clang-tidy -> the name of its version 14 here
  local name
  for name in "$1-14" "$1"; do
    if command -v "$name" >/dev/null && [[ "$("$name" --version)" == *"version 14."* ]]; then echo "$name"; return; fi
  done
  fail 2 "$1: version 14 is not installed" "" "scripts/setup.sh --core-only --checks"
}

# chosen PATTERN FOLDER...: the paths of FILE... that match, or of all files in the folders where there is no FILE. Each
# path ends in a zero byte.
chosen() {
  local pattern="$1"
  shift
  if [ ${#files[@]} -gt 0 ]; then printf '%s\0' "${files[@]}"; else find "$@" -type f -print0; fi |
    { grep --null-data --extended-regexp "$pattern" || [ $? = 1 ]; }  # 1: no path matches
}

check_format() {
  local program how=(--dry-run --Werror) where
  where='s/^\([^: ]*:[0-9]*\):.*: code should be clang-formatted.*/\1: clang-format would change this line/p'
  program="$(llvm_14 clang-format)" || exit 2
  if [ "$fix" = yes ]; then how=(-i); fi
  chosen '\.(cpp|h|cu)$' src tests |
    xargs --null --no-run-if-empty --max-args=50 --max-procs="$(nproc)" "$program" "${how[@]}" 2>&1 |
    sed -n "$where" | uniq
}

check_rules() { python3 tests/tidy/tidy_test.py sources; }

check_shell() {
  command -v shellcheck >/dev/null || fail 2 "shellcheck is not installed" "" "scripts/setup.sh --core-only --checks"
  chosen '\.sh$|^\.ci/run$' scripts examples .ci | xargs --null --no-run-if-empty shellcheck --external-sources
}

# CMake lists what is compiled, and how. Nothing is built, and preset debug has no precompiled headers of g++. Without
# FILE... up to 16 sources are read together, as they are compiled: most of the time goes to headers that all of them
# include.
check_clang_tidy() {
  local program torch=OFF folders=src folder="$root/build/clang-tidy" together=1 log
  program="$(llvm_14 clang-tidy)" || exit 2
  if [ "$all" = yes ]; then torch=ON folders='src|tests' folder="$folder-all"; fi
  if [ ${#files[@]} = 0 ]; then together=16 folder="$folder-together"; fi
  mkdir -p "$folder"
  log="$folder/log"
  cmake --preset debug -B "$folder" -DHEARTH_TORCH="$torch" -DHEARTH_UNITY="$together" >"$log" 2>&1 || {
    tail -n 20 "$log" >&2
    fail 2 "clang-tidy: cmake failed" "the lines above; all of them are in $log" "scripts/setup.sh, or remove $folder"
  }
  local compiled=() sources=()
  mapfile -t compiled < <(sed -n 's/^ *"file": "\(.*\)",\?$/\1/p' "$folder/compile_commands.json")
  compiled=("${compiled[@]#"$root"/}")
  mapfile -t sources < <(printf '%s\n' "${compiled[@]}" |
    grep --extended-regexp "^($folders)/|^${folder#"$root"/}/($folders)/.*/Unity/" | sort --unique)
  if [ ${#files[@]} -gt 0 ]; then
    mapfile -t sources < <(printf '%s\n' "${files[@]}" | sort --unique | comm -12 <(printf '%s\n' "${sources[@]}") -)
  fi
  say "clang-tidy: ${#sources[@]} files, $(nproc) at a time"
  if [ ${#sources[@]} = 0 ]; then return; fi
  # Its standard error counts the warnings about system headers that it does not show. Sources that are read together
  # are included, which is what bugprone-suspicious-include looks for.
  printf '%s\0' "${sources[@]}" |
    xargs --null --max-args=1 --max-procs="$(nproc)" "$program" -p "$folder" --quiet \
      --checks=-bugprone-suspicious-include 2>"$log" || {
    tail -n 3 "$log"
    return 1
  }
}

found=()
for check in "${checks[@]}"; do
  say "$check"
  started=$SECONDS code=0
  (
    case "$check" in
      format) check_format ;;
      rules) check_rules ;;
      shell) check_shell ;;
      clang-tidy) check_clang_tidy ;;
    esac
  ) || code=$?
  if [ "$code" = 2 ]; then exit 2; fi
  if [ "$code" != 0 ]; then found+=("$check"); fi
  say "$check: $([ "$code" = 0 ] && echo nothing || echo something) found in $((SECONDS - started)) s"
done
if [ ${#found[@]} = 0 ]; then exit 0; fi
fix=""
if [[ " ${found[*]} " == *" format "* ]]; then fix="scripts/check.sh --fix format rewrites what format lists"; fi
fail 1 "check.sh: the findings of ${found[*]} are listed above" "" "$fix"
