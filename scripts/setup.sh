#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# scripts/setup.sh [--oracle] [--checks] [--text] [--gpu] [--core-only] [--no-arrow]: installs what Hearth is built from;
# a second run finds it there.
# scripts/setup.sh (--prefix DIR | --bundle) [--cpu | --cuda | --rocm] [--wheel FILE] [--tokenizer PATH]...: the same,
# then builds Hearth and puts it, with all that it needs, into a folder or an archive (scripts/bundle.sh).
#
#   --prefix DIR into DIR. For users without root: sudo is not used, so the packages must be there
#   --bundle     into an archive in dist/, for clusters: it is unpacked anywhere, and needs no network and no root
#   --cpu, --cuda, --rocm   which LibTorch; without them as --gpu says
#   --wheel FILE the torch wheel to take LibTorch from, in place of PyPI's; --rocm needs it (or HEARTH_LIBTORCH)
#   --tokenizer PATH  a tokenizer to take along
#   --oracle     also .deps/oracle: PyTorch and Transformers in Python, which only tests use (5 GB on disk)
#   --checks     also the programs of scripts/check.sh: clang-format, clang-tidy and shellcheck (300 MB on disk)
#   --text       also python3-doc, the default text of scripts/quickstart.sh (70 MB on disk)
#   --gpu        also what LibTorch needs on an NVIDIA GPU (4 GB on disk); where there is one, that is the default
#   --core-only  no LibTorch: enough for hearth, not for hearth-train
#   --no-arrow   no Arrow: data build then reads no Parquet, no Arrow and no datasets of Hugging Face's save_to_disk
#   --help       this text
#
# 1. Distribution packages: compiler, CMake, small libraries.
# 2. LibTorch, the first there is: HEARTH_LIBTORCH; a torch >= 2.11 of the active python3; the pinned wheel in .deps/.
# 3. Arrow, the first there is: HEARTH_ARROW; the pinned pyarrow wheel in .deps/.
# Exit codes: 0 done, 2 something only you can fix, 4 network or disk.

# shellcheck source-path=SCRIPTDIR source=steps.sh
source "$(dirname "${BASH_SOURCE[0]}")/steps.sh"

packages=(g++ cmake ninja-build ccache libfmt-dev libspdlog-dev libcli11-dev libtomlplusplus-dev nlohmann-json3-dev
          libxxhash-dev zlib1g-dev libzstd-dev liblzma-dev libbz2-dev libssl-dev libcurl4-openssl-dev
          libsentencepiece-dev libpcre2-dev libyaml-cpp-dev unicode-data libjs-dygraphs libhwy-dev libgtest-dev
          libgmock-dev ca-certificates python3 python3-venv)
check_packages=(clang-format-14 clang-tidy-14 shellcheck)
text_package=python3-doc
torch_version=2.11.0
cuda_runtime=nvidia-cuda-runtime==13.0.96
cuda_cupti=nvidia-cuda-cupti==13.0.85
arrow_version=26.0.1
# The distribution's Python, whatever is active: its version is known to have wheels and its venv comes from a package.
python=/usr/bin/python3

oracle=no checks=no text=no gpu=no core_only=no arrow=yes kind="" wheel="" prefix="" bundle=()
while [ $# -gt 0 ]; do
  argument="$1"
  shift
  case "$argument" in
    --prefix | --wheel | --tokenizer)
      if [ -z "${1:-}" ]; then fail 2 "setup.sh: $argument needs a path"; fi
      case "$argument" in
        --wheel) wheel="$1" ;;
        --prefix) prefix="$1" bundle+=(--prefix "$1") ;;
        *) bundle+=(--tokenizer "$1") ;;
      esac
      shift ;;
    --bundle) bundle+=(--archive) ;;
    --cpu | --cuda | --rocm) kind="${argument#--}" ;;
    --oracle) oracle=yes ;;
    --checks) checks=yes ;;
    --text) text=yes ;;
    --gpu) gpu=yes ;;
    --core-only) core_only=yes ;;
    --no-arrow) arrow=no ;;
    --help) print_help; exit 0 ;;
    *) fail 2 "setup.sh does not know \"$argument\"" "" "scripts/setup.sh --help lists the options" ;;
  esac
done
deps="$root/.deps"
if [ -e /dev/nvidiactl ]; then gpu=yes; fi
case "$kind" in
  cpu) gpu=no ;;
  cuda) gpu=yes ;;
  rocm)
    gpu=no
    [ -n "$wheel$(printenv HEARTH_LIBTORCH || true)" ] ||
      fail 2 "setup.sh: --rocm needs --wheel FILE" "PyPI has torch for CPUs and NVIDIA's GPUs only" \
        "download the wheel of torch $torch_version for the cluster's ROCm from PyTorch's site and name it" ;;
esac
[ -z "$wheel" ] || [ -f "$wheel" ] || fail 2 "setup.sh: there is no wheel $wheel"
if [ -n "$kind" ] && [ ${#bundle[@]} = 0 ]; then fail 2 "setup.sh: --$kind goes with --prefix or --bundle"; fi
if [ ${#bundle[@]} -gt 0 ] && [ "$core_only" = yes ]; then
  fail 2 "setup.sh: --core-only does not go with --prefix or --bundle"
fi

# --- packages ---------------------------------------------------------------------------------------------------------

missing_packages() {  # prints those of its arguments that are not installed
  local installed
  installed=" $(dpkg-query --show --showformat '${db:Status-Status}:${Package} ' "$@" 2>/dev/null || true)"
  local package
  for package in "$@"; do
    [[ "$installed" == *" installed:$package "* ]] || printf '%s ' "$package"
  done
}

apt_install() {  # step, packages...
  local step="$1" as_root=()
  shift
  if [ "$(id -u)" != 0 ]; then
    [ -z "$prefix" ] || fail 2 "$step: these packages are not here: $*" "with --prefix, sudo is not used" \
      "ask the site for them, or unpack an archive here that scripts/setup.sh --bundle made elsewhere"
    command -v sudo >/dev/null ||
      fail 2 "$step: cannot install $*" "you are not root and there is no sudo" "as root: apt-get install $*"
    as_root=(sudo)
  fi
  local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -o Acquire::Retries=5 -o DPkg::Lock::Timeout=300)
  "${apt[@]}" update </dev/null >"$log" 2>&1 || { tail -n 5 "$log" >&2; return 1; }
  "${apt[@]}" install --yes --no-install-recommends "$@" </dev/null >"$log" 2>&1 || { tail -n 15 "$log" >&2; return 1; }
}

install_packages() {
  if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
    # Not Debian's family: the same libraries may be there under other names. Ask the compiler.
    if command -v cmake >/dev/null && command -v ninja >/dev/null && printf '#include <%s>\n' fmt/core.h spdlog/spdlog.h CLI/CLI.hpp toml++/toml.h \
        nlohmann/json.hpp xxhash.h zlib.h zstd.h lzma.h bzlib.h openssl/evp.h curl/curl.h pcre2.h \
        sentencepiece_processor.h hwy/highway.h gmock/gmock.h |
        g++ -std=c++20 -DPCRE2_CODE_UNIT_WIDTH=8 -E -x c++ - >/dev/null 2>&1; then
      say "packages: found (not Debian or Ubuntu: checked with the compiler)"
      return
    fi
    fail 2 "packages: this is neither Debian nor Ubuntu" "setup.sh installs with apt-get only" \
      "install what your distribution calls these, then run again: ${packages[*]}"
  fi
  local missing
  missing="$(missing_packages "${packages[@]}")"
  if [ -z "$missing" ]; then
    say "packages: all there"
  else
    say "packages: installing $missing(at most 130 MB to download, 600 MB on disk)"
    # shellcheck disable=SC2086
    apt_install packages $missing ||
      fail 4 "packages: apt-get failed; its output is in $log" "" "run again; if it stays: apt-get install $missing"
  fi
}

check_nvcc() {  # without it, everything is built but the GPU's kernels
  if [ "$gpu" = no ] || command -v nvcc >/dev/null || [ -x /usr/local/cuda/bin/nvcc ]; then return; fi
  say "GPU: there is no nvcc, so Hearth is built without GPU kernels; install NVIDIA's CUDA toolkit 12.8 or newer to have them"
}

check_tools() {  # distributions older than Debian 12 have the packages in versions that are too old
  local cmake_version gxx_version
  cmake_version="$(cmake --version | sed -n '1s/.* //p')"
  gxx_version="$(g++ -dumpfullversion)"
  at_least "$cmake_version" 3.25 || fail 2 "packages: CMake $cmake_version is too old" "Hearth needs 3.25" \
    "Debian 12, Ubuntu 24.04 or newer have it"
  at_least "$gxx_version" 12 || fail 2 "packages: g++ $gxx_version is too old" "Hearth is C++20: g++ 12 or newer" \
    "Debian 12, Ubuntu 24.04 or newer have it"
}

at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort --version-sort | sed -n 1p)" = "$2" ]; }

install_text() {
  if [ -z "$(missing_packages "$text_package")" ]; then return; fi
  say "text: installing $text_package (15 MB to download, 70 MB on disk)"
  apt_install text "$text_package" || say "text: $text_package is not to be had; the quickstart takes other text"
}

install_checks() {
  local missing
  missing="$(missing_packages "${check_packages[@]}")"
  if [ -z "$missing" ]; then return; fi
  say "checks: installing $missing(50 MB to download, 300 MB on disk)"
  # shellcheck disable=SC2086
  apt_install checks $missing ||
    fail 4 "checks: apt-get failed; its output is in $log" "" "run again; if it stays: apt-get install $missing"
}

# --- LibTorch ---------------------------------------------------------------------------------------------------------

torch_version_in() {  # FOLDER -> version of the LibTorch there, or nothing
  local header
  for header in "$1/include/torch/headeronly/version.h" "$1/include/torch/csrc/api/include/torch/version.h"; do
    if [ -f "$header" ] && [ -f "$1/lib/libtorch_cpu.so" ]; then
      sed -n 's/^#define TORCH_VERSION_\(MAJOR\|MINOR\|PATCH\) \([0-9]*\).*/\2/p' "$header" | paste --serial --delimiters=.
      return
    fi
  done
}

torch_of_active_python() {  # the folder, found without importing it
  command -v python3 >/dev/null || return 0
  python3 -c 'import importlib.util as u; s = u.find_spec("torch"); print(s.submodule_search_locations[0] if s else "")' \
    2>/dev/null || true
}

has_library() {  # does the loader find it without our help, or FindLibTorch.cmake?
  { /sbin/ldconfig -p 2>/dev/null || true; } | grep --fixed-strings "$1 " >/dev/null || [ -e "/usr/local/cuda/lib64/$1" ] ||
    [ -e "/usr/local/cuda/extras/CUPTI/lib64/$1" ]
}

need_disk() {  # step, GB
  local free_kb
  free_kb="$(df --output=avail -k "$deps" | tail -n 1)"
  [ "$free_kb" -ge $(($2 * 1000000)) ] ||
    fail 4 "$1: needs $2 GB free in $deps" "there are $((free_kb / 1000000)) GB" "free some space, or link .deps to another disk"
}

pip_install() {  # step, interpreter, pip arguments...
  local step="$1" interpreter="$2"
  shift 2
  # pip unpacks in TMPDIR: /tmp may be small, and a rename inside .deps is free.
  mkdir -p "$deps/tmp"
  local quiet=(--quiet)
  if [ -t 1 ]; then quiet=(); fi  # a person wants to see the download move
  TMPDIR="$deps/tmp" "$interpreter" -m pip install "${quiet[@]}" --disable-pip-version-check --no-input --retries 10 --timeout 60 \
    --only-binary :all: "$@" </dev/null 2>"$log" || {
    tail -n 8 "$log" >&2
    fail 4 "$step: pip could not install it; its output is in $log" "" "check the network (and pip's index), then run again"
  }
}

install_wheels() {  # step, folder to make, pip arguments...
  local step="$1" folder="$2"
  shift 2
  rm -rf "$deps/pip" "$folder.partial"
  new_venv "$step" "$deps/pip"
  pip_install "$step" "$deps/pip/bin/python" --target "$folder.partial" "$@"
  mv "$folder.partial" "$folder"
  rm -rf "$deps/pip" "$deps/tmp"
}

new_venv() {  # step, folder
  "$python" -m venv "$2" >"$log" 2>&1 || {
    tail -n 3 "$log" >&2
    fail 2 "$1: $python cannot make a virtual environment" "" "install the package python3-venv"
  }
}

# A wheel is a zip archive. The mark in the folder says which one it came from.
install_torch_wheel() {
  local version mark
  mark="$(basename "$wheel")"
  if [ "$(cat "$deps/libtorch/wheel.txt" 2>/dev/null)" != "$mark" ]; then
    say "LibTorch: unpacking $mark into .deps/libtorch"
    rm -rf "$deps/libtorch" "$deps/libtorch.partial"
    "$python" -m zipfile -e "$wheel" "$deps/libtorch.partial" 2>"$log" ||
      fail 2 "LibTorch: $wheel is not a wheel" "$(tail -n 1 "$log")"
    printf '%s\n' "$mark" >"$deps/libtorch.partial/wheel.txt"
    mv "$deps/libtorch.partial" "$deps/libtorch"
  fi
  version="$(torch_version_in "$deps/libtorch/torch")"
  [ -n "$version" ] || fail 2 "LibTorch: $wheel has no torch/lib/libtorch_cpu.so"
  at_least "$version" 2.11 || fail 2 "LibTorch: $wheel is $version" "Hearth needs 2.11 or newer" "give a newer one"
  say "LibTorch: $version in .deps/libtorch (--wheel)"
}

install_libtorch() {
  local version folder
  if [ -n "${HEARTH_LIBTORCH:-}" ]; then
    version="$(torch_version_in "$HEARTH_LIBTORCH")"
    [ -n "$version" ] || fail 2 "LibTorch: HEARTH_LIBTORCH=$HEARTH_LIBTORCH is not a torch folder" \
      "it has no lib/libtorch_cpu.so or no include/" "give the folder that holds both, or unset it"
    at_least "$version" 2.11 || fail 2 "LibTorch: HEARTH_LIBTORCH=$HEARTH_LIBTORCH is $version" \
      "Hearth needs 2.11 or newer" "give a newer one, or unset it"
    say "LibTorch: $version in $HEARTH_LIBTORCH (HEARTH_LIBTORCH)"
    return
  fi
  if [ -n "$wheel" ]; then
    install_torch_wheel
    return
  fi
  folder="$(torch_of_active_python)"
  version="$([ -z "$folder" ] || torch_version_in "$folder")"
  if [ -n "$version" ]; then
    if at_least "$version" 2.11; then
      say "LibTorch: $version in $folder (active python3)"
      return
    fi
    say "LibTorch: passing over $version in $folder (active python3): 2.11 or newer is needed"
  fi
  if [ -e "$deps/libtorch/torch/lib/libtorch_cpu.so" ] && { [ "$gpu" = no ] || [ -d "$deps/libtorch/nvidia" ]; }; then
    say "LibTorch: $(torch_version_in "$deps/libtorch/torch") in .deps/libtorch"
    return
  fi
  if [ "$gpu" = yes ]; then
    say "LibTorch: installing torch==$torch_version with its CUDA libraries into .deps/libtorch (2.5 GB to download, 5 GB on disk)"
    need_disk LibTorch 9
    rm -rf "$deps/libtorch"
    install_wheels LibTorch "$deps/libtorch" "torch==$torch_version"
    return
  fi
  local wheels=("torch==$torch_version")
  has_library libcudart.so.13 || wheels+=("$cuda_runtime")
  has_library libcupti.so.13 || wheels+=("$cuda_cupti")
  say "LibTorch: installing ${wheels[*]} into .deps/libtorch (0.6 GB to download, 1.2 GB on disk)"
  need_disk LibTorch 3
  install_wheels LibTorch "$deps/libtorch" --no-deps "${wheels[@]}"
}

# --- Arrow ------------------------------------------------------------------------------------------------------------

arrow_version_in() {  # FOLDER -> version of the Arrow there, or nothing
  local header="$1/include/arrow/util/config.h"
  if [ -f "$header" ] && compgen -G "$1/libarrow.so.*" >/dev/null && compgen -G "$1/libparquet.so.*" >/dev/null; then
    sed -n 's/^#define ARROW_VERSION_STRING "\(.*\)"/\1/p' "$header"
  fi
}

install_arrow() {
  local version
  if [ -n "${HEARTH_ARROW:-}" ]; then
    version="$(arrow_version_in "$HEARTH_ARROW")"
    [ -n "$version" ] || fail 2 "Arrow: HEARTH_ARROW=$HEARTH_ARROW is not a pyarrow folder" \
      "it has no libarrow.so.N, no libparquet.so.N or no include/" "give the folder that holds all three, or unset it"
    at_least "$version" 26 || fail 2 "Arrow: HEARTH_ARROW=$HEARTH_ARROW is $version" \
      "Hearth needs 26 or newer" "give a newer one, or unset it"
    say "Arrow: $version in $HEARTH_ARROW (HEARTH_ARROW)"
    return
  fi
  version="$(arrow_version_in "$deps/arrow/pyarrow")"
  if [ "$version" = "$arrow_version" ]; then
    say "Arrow: $version in .deps/arrow"
    return
  fi
  say "Arrow: installing pyarrow==$arrow_version into .deps/arrow (55 MB to download, 170 MB on disk)"
  need_disk Arrow 1
  rm -rf "$deps/arrow"
  install_wheels Arrow "$deps/arrow" --no-deps "pyarrow==$arrow_version"
}

# --- the tests' oracle ------------------------------------------------------------------------------------------------

install_oracle() {
  local wanted="$root/scripts/oracle.txt"
  # The list is copied into the environment as the last step: it marks the environment as whole and of these versions.
  if cmp --silent "$wanted" "$deps/oracle/oracle.txt"; then
    say "oracle: $(sed -n 's/^\(torch\|transformers\|numpy\)==/\1 /p' "$wanted" | paste --serial --delimiters=' ') in .deps/oracle"
    return
  fi
  if [ -f "$deps/oracle/oracle.txt" ]; then  # whole, of another list: what differs is replaced
    say "oracle: bringing .deps/oracle to the versions of scripts/oracle.txt"
    rm "$deps/oracle/oracle.txt"
  else
    say "oracle: installing scripts/oracle.txt into .deps/oracle for the tests (2.5 GB to download, 5 GB on disk; minutes)"
    need_disk oracle 9
    rm -rf "$deps/oracle"  # a virtual environment knows its own path: it is built in place, and marked when whole
    new_venv oracle "$deps/oracle"
  fi
  pip_install oracle "$deps/oracle/bin/python" --no-deps --requirement "$wanted"
  cp "$wanted" "$deps/oracle/oracle.txt"
  rm -rf "$deps/tmp"
}

mkdir -p "$deps"
log="$deps/setup.log"
exec 9>"$deps/.lock"
flock --nonblock 9 || { say "waiting for another setup.sh"; flock 9; }
install_packages
check_tools
if [ "$checks" = yes ]; then install_checks; fi
if [ "$text" = yes ]; then install_text; fi
if [ "$core_only" = no ]; then install_libtorch; fi
if [ "$core_only" = no ]; then check_nvcc; fi
if [ "$arrow" = yes ]; then install_arrow; fi
if [ "$oracle" = yes ]; then install_oracle; fi
if [ ${#bundle[@]} -gt 0 ]; then
  if [ -z "$kind" ]; then kind="$([ "$gpu" = yes ] && echo cuda || echo cpu)"; fi
  exec 9>&-  # the build's daemons must not keep the lock
  "$root/scripts/bundle.sh" "--$kind" "${bundle[@]}"
fi
