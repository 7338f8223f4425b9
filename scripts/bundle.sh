#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# scripts/bundle.sh (--prefix DIR | --archive) [--cpu | --cuda | --rocm] [--tokenizer PATH]...: Hearth and all that it
# needs in one folder, which runs from wherever it is put. scripts/setup.sh calls it; it installs nothing itself.
#
#   --prefix DIR      makes the folder: it must be new, empty, or an earlier one of this script
#   --archive         makes dist/hearth-VERSION-linux-x86_64-KIND.tar.gz, and its SHA-256
#   --cpu             LibTorch's libraries for CPUs alone (the default); --cuda, --rocm: all that the torch wheel has
#   --tokenizer PATH  a tokenizer, file or folder, to put into share/hearth/tokenizers
#   --help            this text
#
# The folder has bin/, torch/lib/, share/hearth/ (cluster files, tokenizers, hearth.def for Apptainer) and
# share/licences/. It needs x86-64-v2 and a glibc as new as that of this machine; hearth.def makes an image for older
# systems. It is moved elsewhere and tried before it gets its name.

# shellcheck source-path=SCRIPTDIR source=steps.sh
source "$(dirname "${BASH_SOURCE[0]}")/steps.sh"

prefix="" archive=no kind=cpu tokenizers=()
while [ $# -gt 0 ]; do
  case "$1" in
    --prefix | --tokenizer)
      if [ -z "${2:-}" ]; then fail 2 "bundle.sh: $1 needs a path"; fi
      if [ "$1" = --prefix ]; then prefix="$2"; else tokenizers+=("$2"); fi
      shift ;;
    --archive) archive=yes ;;
    --cpu | --cuda | --rocm) kind="${1#--}" ;;
    --help) print_help; exit 0 ;;
    *) fail 2 "bundle.sh does not know \"$1\"" "" "scripts/bundle.sh --help lists the options" ;;
  esac
  shift
done
if [ -z "$prefix" ] && [ "$archive" = no ]; then fail 2 "bundle.sh needs --prefix DIR or --archive"; fi
for tokenizer in "${tokenizers[@]}"; do
  [ -e "$tokenizer" ] || fail 2 "bundle.sh: there is no tokenizer $tokenizer"
done
if [ -n "$prefix" ] && [ -e "$prefix" ] && [ ! -e "$prefix/share/licences/hearth.txt" ] &&
  [ -n "$(ls -A "$prefix")" ]; then
  fail 2 "bundle.sh: $prefix has other files" "they would be removed" "give a new or an empty folder"
fi

version="$(sed -n 's/^project(hearth VERSION \([0-9.]*\).*/\1/p' "$root/CMakeLists.txt")"
name="hearth-$version-linux-x86_64-$kind"
mkdir -p "$root/dist"
if [ -n "$prefix" ]; then mkdir -p "$(dirname "$prefix")"; fi
# Next to its final place, so that a rename moves it.
staging="$(mktemp --directory "$(cd "$(dirname "${prefix:-$root/dist/x}")" && pwd)/.hearth-bundle.XXXXXX")"
trap 'rm -rf "$staging"' EXIT
tree="$staging/$name"

copy_torch() {
  local torch library folder
  torch="$(dirname "$(dirname "$(ldd "$tree/bin/hearth-train" | sed -n 's/.*libtorch_cpu\.so => \([^ ]*\) .*/\1/p')")")"
  [ -e "$torch/lib/libtorch_cpu.so" ] || fail 5 "bundle.sh: hearth-train finds no LibTorch" "" "scripts/setup.sh"
  mkdir -p "$tree/torch/lib"
  if [ "$kind" = cpu ]; then
    # What hearth-train loads of it, and the two libraries of CUDA that the wheel for CPUs and NVIDIA's GPUs wants.
    ldd "$tree/bin/hearth-train" | sed -n 's/.* => \([^ ]*\) (.*/\1/p' | while read -r library; do
      case "$library" in
        "$torch"/* | */libcudart.so.* | */libcupti.so.*) cp --dereference "$library" "$tree/torch/lib/" ;;
      esac
    done
  else
    [ "$kind" != cuda ] || [ -e "$torch/lib/libtorch_cuda.so" ] ||
      fail 2 "bundle.sh: LibTorch in $torch is not for CUDA" "" "scripts/setup.sh --cuda"
    [ "$kind" != rocm ] || [ -e "$torch/lib/libtorch_hip.so" ] ||
      fail 2 "bundle.sh: LibTorch in $torch is not for ROCm" "" "scripts/setup.sh --rocm --wheel FILE"
    find "$torch/lib" -maxdepth 1 -name '*.so*' ! -name libtorch_python.so \
      -exec cp --dereference {} "$tree/torch/lib/" ';'
    for folder in rocblas hipblaslt; do # the kernels of ROCm's libraries
      if [ -d "$torch/lib/$folder" ]; then cp --recursive "$torch/lib/$folder" "$tree/torch/lib/"; fi
    done
    if [ -d "$torch/../nvidia" ]; then cp --recursive --dereference "$torch/../nvidia" "$tree/"; fi
  fi
  licence torch "$torch/../torch-"*.dist-info/licenses/LICENSE "$torch/../torch-"*.dist-info/LICENSE
  licence cuda "$torch/../nvidia_cuda_runtime-"*.dist-info/licenses/License.txt \
    "$torch/../nvidia_cuda_runtime-"*.dist-info/License.txt /usr/local/cuda/EULA.txt
  licence torch-notice "$torch/../torch-"*.dist-info/licenses/NOTICE "$torch/../torch-"*.dist-info/NOTICE
}

licence() {  # name, files: the first that is there
  local name="$1" file
  shift
  for file in "$@"; do
    if [ -e "$file" ]; then
      cp "$file" "$tree/share/licences/$name.txt"
      return
    fi
  done
}

# The licences of what is linked into the programs or lies next to them.
copy_licences() {
  local package
  mkdir -p "$tree/share/licences"
  licence hearth "$root/LICENSE"
  licence arrow "$root"/.deps/arrow/pyarrow-*.dist-info/{licenses/,}LICENSE.txt
  for package in libfmt-dev libspdlog-dev libcli11-dev libtomlplusplus-dev nlohmann-json3-dev libxxhash-dev zlib1g-dev \
    libzstd-dev liblzma-dev libbz2-dev libssl-dev libcurl4-openssl-dev libsentencepiece-dev libpcre2-dev \
    libyaml-cpp-dev unicode-data libjs-dygraphs libhwy-dev; do
    licence "$package" "/usr/share/doc/$package/copyright"
  done
}

copy_rest() {
  local tokenizer
  mkdir -p "$tree/share/hearth/tokenizers"
  for tokenizer in "${tokenizers[@]}"; do
    cp --recursive --dereference "$tokenizer" "$tree/share/hearth/tokenizers/"
  done
  cat >"$tree/share/hearth/hearth.def" <<DEFINITION
# An image of Hearth $version for Apptainer. In the folder that holds $name:
#     apptainer build hearth.sif $name/share/hearth/hearth.def
# In a cluster file: container = ["apptainer", "exec", "$(gpu_option)hearth.sif"], hearth = "/opt/hearth/bin/hearth"
Bootstrap: docker
From: $(base_image)

%files
    $name /opt/hearth

%environment
    export PATH=/opt/hearth/bin:\$PATH

%runscript
    exec /opt/hearth/bin/hearth "\$@"

%test
    /opt/hearth/bin/hearth --version
    /opt/hearth/bin/hearth-train --version
DEFINITION
}

gpu_option() { case "$kind" in cuda) printf -- '--nv", "' ;; rocm) printf -- '--rocm", "' ;; esac; }

# With this machine's glibc: the programs need one as new.
base_image() {
  local ID="" VERSION_ID=""
  # shellcheck source=/dev/null
  source /etc/os-release
  case "$ID" in debian | ubuntu) printf '%s:%s' "$ID" "$VERSION_ID" ;; *) printf 'debian:testing' ;; esac
}

# From another place, with nothing of the caller's environment: does every library come from the folder or the system?
try_it() {
  local moved="$staging/moved" said library
  mv "$tree" "$moved"
  for program in hearth hearth-train; do
    said="$(env --ignore-environment "$moved/bin/$program" --version 2>&1)" ||
      fail 5 "bundle.sh: bin/$program does not run from another place" "$said"
  done
  said="$(env --ignore-environment ldd "$moved/bin/hearth-train" 2>&1)" || fail 5 "bundle.sh: ldd failed" "$said"
  library="$(grep --extended-regexp 'torch|c10|cu[a-z]*\.so|not found' <<<"$said" |
    grep --invert-match --fixed-strings "$moved" || true)"
  [ -z "$library" ] || fail 5 "bundle.sh: a library is not in the folder" "$library"
  mv "$moved" "$tree"
}

targets=(hearth hearth-train)
build release "${targets[@]}"
# Libraries that are built only where their compiler is.
mapfile -t others < <(ninja -C "$root/build/release" -t targets all |
  sed -n 's/^\(hearth_\(cuda\|cuda_graph\|hip\|mpi\)\): phony$/\1/p')
if [ ${#others[@]} -gt 0 ]; then build release "${targets[@]}" "${others[@]}"; fi
say "install: build/release into $name"
cmake --install "$root/build/release" --prefix "$tree" >"$staging/log" 2>&1 ||
  fail 5 "bundle.sh: cmake --install failed" "$(tail -n 5 "$staging/log")"
copy_licences
copy_torch
copy_rest
try_it
say "bundle: $(du --summarize --human-readable "$tree" | cut --fields=1), $(env -i "$tree/bin/hearth" --version)"

if [ "$archive" = yes ]; then
  say "archive: dist/$name.tar.gz (a minute)"
  tar --create --directory "$staging" --sort=name --owner=0 --group=0 --numeric-owner "$name" |
    gzip --no-name >"$staging/archive"
  mv "$staging/archive" "$root/dist/$name.tar.gz"
  (cd "$root/dist" && sha256sum "$name.tar.gz" >"$name.tar.gz.sha256")
  size="$(du --human-readable "$root/dist/$name.tar.gz" | cut --fields=1)"
  say "archive: $size; unpack it anywhere and run $name/bin/hearth"
fi
if [ -n "$prefix" ]; then
  rm -rf "$prefix"
  mv "$tree" "$prefix"
  say "installed: $prefix/bin/hearth"
fi
