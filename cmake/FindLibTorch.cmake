# SPDX-License-Identifier: Apache-2.0
# Finds LibTorch in a pip wheel or an unpacked LibTorch archive, without find_package(Torch): that enables the CUDA
# language, requires nvcc, and fails on ROCm wheels.
#
# Input, the first that is set wins:
#   HEARTH_LIBTORCH      (cache or environment) a folder with include/ and lib/: .../site-packages/torch
#   .deps/libtorch/torch where scripts/setup.sh puts the pinned wheel
#   the torch of the active python3 (its path is looked up; torch itself is not imported)
# Output: imported target LibTorch::LibTorch, LibTorch_VERSION, LibTorch_DIR_USED, LibTorch_HAS_CUDA.
include(FindPackageHandleStandardArgs)

set(_torch_candidates)
if(HEARTH_LIBTORCH)
  list(APPEND _torch_candidates "${HEARTH_LIBTORCH}")
elseif(DEFINED ENV{HEARTH_LIBTORCH})
  list(APPEND _torch_candidates "$ENV{HEARTH_LIBTORCH}")
else()
  find_program(_python NAMES python3)
  if(_python)
    execute_process(
      COMMAND "${_python}" -c "import importlib.util as u; s = u.find_spec('torch'); print(s.submodule_search_locations[0] if s else '')"
      OUTPUT_VARIABLE _torch_of_python OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    if(_torch_of_python)
      list(APPEND _torch_candidates "${_torch_of_python}")
    endif()
  endif()
  list(APPEND _torch_candidates "${CMAKE_SOURCE_DIR}/.deps/libtorch/torch")
endif()

foreach(_dir IN LISTS _torch_candidates)
  if(NOT EXISTS "${_dir}/lib/libtorch_cpu.so" OR NOT EXISTS "${_dir}/include/ATen/core/Tensor.h")
    continue()
  endif()
  set(_version_header "${_dir}/include/torch/headeronly/version.h")
  if(NOT EXISTS "${_version_header}")
    set(_version_header "${_dir}/include/torch/csrc/api/include/torch/version.h")
  endif()
  file(STRINGS "${_version_header}" _version_lines REGEX "define TORCH_VERSION_(MAJOR|MINOR|PATCH) ")
  string(REGEX REPLACE ".*MAJOR ([0-9]+).*MINOR ([0-9]+).*PATCH ([0-9]+).*" "\\1.\\2.\\3" LibTorch_VERSION "${_version_lines}")
  set(LibTorch_DIR_USED "${_dir}")
  if(LibTorch_VERSION VERSION_GREATER_EQUAL LibTorch_FIND_VERSION)
    break()  # an older one is skipped, and named if there is no other
  endif()
endforeach()
if(LibTorch_DIR_USED AND EXISTS "${LibTorch_DIR_USED}/lib/libtorch_cuda.so")
  set(LibTorch_HAS_CUDA TRUE)
endif()

find_package_handle_standard_args(LibTorch
  REQUIRED_VARS LibTorch_DIR_USED
  VERSION_VAR LibTorch_VERSION
  REASON_FAILURE_MESSAGE "run scripts/setup.sh, or set HEARTH_LIBTORCH to a torch folder (looked in: ${_torch_candidates})")

if(LibTorch_FOUND AND NOT TARGET LibTorch::LibTorch)
  set(_lib "${LibTorch_DIR_USED}/lib")
  add_library(LibTorch::LibTorch INTERFACE IMPORTED)
  target_include_directories(LibTorch::LibTorch SYSTEM INTERFACE "${LibTorch_DIR_USED}/include")
  target_link_libraries(LibTorch::LibTorch INTERFACE "${_lib}/libtorch_cpu.so" "${_lib}/libc10.so")
  # A CUDA wheel's libtorch_cpu.so needs libcudart and libcupti: next to the wheel, or in the toolkit.
  file(GLOB _runtime_dirs
    "${LibTorch_DIR_USED}/../nvidia/cu13/lib" "${LibTorch_DIR_USED}/../nvidia/*/lib"
    "/usr/local/cuda/lib64" "/usr/local/cuda/extras/CUPTI/lib64")
  set(LibTorch_RUNTIME_DIRS "${_lib}" ${_runtime_dirs})
  # The wheel's own libgomp must be the only OpenMP runtime of the process: this run path finds it first.
  foreach(_dir IN LISTS LibTorch_RUNTIME_DIRS)
    target_link_options(LibTorch::LibTorch INTERFACE "-Wl,-rpath-link,${_dir}")
  endforeach()
  # DT_RPATH, not DT_RUNPATH: DT_RUNPATH does not apply to indirect dependencies.
  target_link_options(LibTorch::LibTorch INTERFACE "-Wl,--disable-new-dtags" "-Wl,--allow-shlib-undefined")
endif()
