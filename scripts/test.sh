#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# scripts/test.sh [ctest arguments]: installs, builds, and runs every test that is not labelled slow.
#
#   scripts/test.sh              all of them
#   scripts/test.sh -R data      those whose name matches
#   scripts/test.sh -L slow      the long ones: soak, kills, fuzzing
#   --help                       this text
#
# With CI set, warnings are errors. Exit code 0: all passed.

# shellcheck source-path=SCRIPTDIR source=steps.sh
source "$(dirname "${BASH_SOURCE[0]}")/steps.sh"

run_slow=no previous=""
for argument in "$@"; do
  case "$argument" in
    --help) print_help; exit 0 ;;
    -Lslow | --label-regex=slow) run_slow=yes ;;
    slow) case "$previous" in -L | --label-regex) run_slow=yes ;; esac ;;
  esac
  previous="$argument"
done
selection=(--label-exclude '^slow$')
if [ "$run_slow" = yes ]; then selection=(); fi

# The skipped tests in a log of CTest, "NAME: reason" each. GoogleTest prints the reason before the name, unittest (-v)
# after it, and a test without cases says "skipped: reason".
skipped_tests() {
  awk '/^[0-9]+\/[0-9]+ Test: / { program = $NF }
       /^skipped: / { print "  " program ": " substr($0, 10) }
       / \.\.\. skipped / { name = $1; sub(/.* \.\.\. skipped /, ""); print "  " program " " name ": " $0 }
       /^\[ RUN      \]/ { reason = "" }
       /: Skipped$/ { in_reason = 1; next }
       /^\[  SKIPPED \] .*\([0-9]+ ms\)$/ { print "  " $4 ": " reason; reason = ""; in_reason = 0 }
       in_reason && NF { reason = reason (reason == "" ? "" : " ") $0 }' "$1" 2>/dev/null | sort -u
}

cd "$root"
started=$SECONDS
scripts/setup.sh --oracle
set_up=$SECONDS

build release ${CI:+-DHEARTH_WERROR=ON}
built=$SECONDS

# One more than there are processors: tests wait for programs that they start, and for hangs to be noticed.
at_a_time=$(($(nproc) + 1))
say "tests: $at_a_time at a time; log in build/release/tests.log"
log=build/release/tests.log
passed=yes
ctest --test-dir build/release --output-on-failure --no-tests=error --parallel "$at_a_time" "${selection[@]}" "$@" </dev/null 2>&1 |
  tee "$log" || passed=no

printf '\nslowest:\n'
sed -n 's/^ *[0-9]*\/[0-9]* Test *#[0-9]*: \([^ ]*\) \.*.* \([0-9.]*\) sec$/\2 s  \1/p' "$log" | sort --general-numeric-sort --reverse |
  sed -n 1,5p  # reads to the end: `head` would leave, and sort die of it
say "setup $((set_up - started)) s, build $((built - set_up)) s, tests $((SECONDS - built)) s"
grep --extended-regexp '^[0-9]+% tests passed|^No tests were found' "$log" || true
# The binaries of tests hold many tests each.
awk '/^\[  PASSED  \] [0-9]+ test/ { passed += $4 } /^\[  SKIPPED \] [0-9]+ test/ { skipped += $4 }
     END { if (passed) printf "in their binaries: %d tests passed, %d skipped\n", passed, skipped }' \
  build/release/Testing/Temporary/LastTest.log || true
if [ "$run_slow" = no ]; then
  left_out="$(ctest --test-dir build/release --show-only --label-regex '^slow$' </dev/null |
    sed -n 's/^Total Tests: //p')"
  say "not run: $left_out tests that are labelled slow (scripts/test.sh -L slow)"
fi
skipped="$(skipped_tests build/release/Testing/Temporary/LastTest.log)"
if [ -n "$skipped" ]; then say "skipped, and why:"; printf '%s\n' "$skipped"; fi
if [ "$passed" = no ]; then
  say "what failed printed this (again, since other tests ran in between):"
  awk '/^ *[0-9]+\/[0-9]+ Test +#/ { failed = /\*\*\*/ } /^ +Start +[0-9]+:/ { next } /^\[( RUN  |  *OK |-+)/ { next } /% tests passed/ { exit } failed' "$log" | tail -n 200
  exit 1
fi
