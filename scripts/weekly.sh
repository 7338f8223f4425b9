#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# scripts/weekly.sh [NAME...]: what takes too long for each change: sanitizers, fuzzing, and the slow tests.
#
#   tsan     ThreadSanitizer, the rooms without LibTorch
#   asan     AddressSanitizer and UndefinedBehaviorSanitizer, everything
#   debug    without optimisation, with libstdc++'s assertions, each source alone
#   fuzz     libFuzzer with clang 14
#   slow     kills, clusters, examples, long fuzzing
#   NAME...  only these; --help: this text
#
# Each has its build in build/NAME and its log in build/weekly-NAME.log. Exit code 0: all passed.

# shellcheck source-path=SCRIPTDIR source=steps.sh
source "$(dirname "${BASH_SOURCE[0]}")/steps.sh"
if [ "${1:-}" = --help ]; then print_help; exit 0; fi
if [ $# -eq 0 ]; then set -- tsan asan debug fuzz slow; fi

cd "$root"
scripts/setup.sh --oracle
failed=()
for name in "$@"; do
  log="build/weekly-$name.log" started=$SECONDS result=passed
  case "$name" in
    slow) scripts/test.sh -L slow >"$log" 2>&1 || result=FAILED ;;
    tsan | asan | debug | fuzz)
      { build "$name" && ctest --preset "$name" --parallel "$(nproc)" </dev/null >"$log" 2>&1; } || result=FAILED ;;
    *) fail 2 "weekly.sh: no step $name" "" "give tsan, asan, debug, fuzz or slow" ;;
  esac
  say "$name: $result after $((SECONDS - started)) s; $log"
  if [ "$result" = FAILED ]; then failed+=("$name"); fi
done
[ ${#failed[@]} -eq 0 ] || fail 1 "${failed[*]}: tests failed" "see the logs"
