# SPDX-License-Identifier: Apache-2.0
# The GPU kernels of src/kernels as shared libraries, which hearth-train loads if a run asks for a GPU: targets
# hearth_cuda (by nvcc) and hearth_hip (by hipcc), each if its compiler is installed. A library that is wanted has one
# command per file. One that only a test builds compiles up to HEARTH_UNITY files together, as hipcc takes 2 s for its
# own headers. It is hardly optimised, as its code never runs, but with HEARTH_WERROR: only real code shows spills.
# CMake's CUDA language is not used: it tests its compiler for seconds at every first configuration.
#
# hearth_cuda comes with hearth_cuda_graph: src/graph, ordinary C++ with the headers of the CUDA toolkit and of
# LibTorch's CUDA half.
#
# Input: HEARTH_CUDA, HEARTH_HIP: ON, OFF, or AUTO, which is ON on a machine with both the compiler and a GPU; and
# LibTorch, already found. Output: HEARTH_NVCC, HEARTH_HIPCC; and the targets that are ON, in `all` and installed.
set(HEARTH_CUDA AUTO CACHE STRING "GPU kernels for NVIDIA: ON, OFF, or AUTO: where there are nvcc and a GPU")
set(HEARTH_HIP AUTO CACHE STRING "GPU kernels for AMD: ON, OFF, or AUTO: where there are hipcc and a GPU")
find_program(HEARTH_NVCC nvcc PATHS "$ENV{CUDA_HOME}/bin" "$ENV{CUDA_PATH}/bin" /usr/local/cuda/bin)
find_program(HEARTH_HIPCC hipcc PATHS "$ENV{ROCM_PATH}/bin" /opt/rocm/bin)

# Sums keep the order and the roundings of the sources: no compiler fuses products on its own. A kernel that spills
# registers is slow: ptxas warns.
set(HEARTH_NVCC_FLAGS -std=c++20 -fmad=false -cudart static -Xcompiler -fPIC,-fvisibility=hidden,-Wall,-Wextra
  -Xptxas -warn-spills)
set(HEARTH_HIPCC_FLAGS -x hip -std=c++20 -ffp-contract=off -fPIC -fvisibility=hidden
  -fvisibility-inlines-hidden -Wall -Wextra)
if(HEARTH_WERROR)
  list(APPEND HEARTH_NVCC_FLAGS -Werror all-warnings -Xptxas -Werror)
  list(APPEND HEARTH_HIPCC_FLAGS -Werror)
endif()

# Sets `result` to files in `folder` that include the sources, at most HEARTH_UNITY each.
function(hearth_include_together result folder)
  list(LENGTH ARGN count)
  set(parts)
  foreach(begin RANGE 0 ${count} ${HEARTH_UNITY})
    list(SUBLIST ARGN ${begin} ${HEARTH_UNITY} together)
    if(together)
      list(TRANSFORM together REPLACE "(.+)" "#include \"\\1\"")
      list(JOIN together "\n" together)
      file(CONFIGURE OUTPUT "${folder}/from_${begin}.cu" CONTENT "${together}\n" @ONLY)
      list(APPEND parts "${folder}/from_${begin}.cu")
    endif()
  endforeach()
  set(${result} "${parts}" PARENT_SCOPE)
endfunction()

# hearth_gpu_library(TARGET COMPILER WANTED COMPILE flags... LINK flags...)
function(hearth_gpu_library target compiler wanted)
  cmake_parse_arguments(PARSE_ARGV 3 arg "" "" "COMPILE;LINK")
  file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/src/kernels/*.cu")
  set(folder "${CMAKE_BINARY_DIR}/kernels/${target}")
  file(MAKE_DIRECTORY "${folder}")
  if(HEARTH_UNITY GREATER 1 AND NOT wanted)
    hearth_include_together(sources "${folder}" ${sources})
  endif()
  set(objects)
  foreach(source IN LISTS sources)
    get_filename_component(name "${source}" NAME_WE)
    set(object "${folder}/${name}.o")
    add_custom_command(OUTPUT "${object}"
      COMMAND "${compiler}" ${arg_COMPILE} "-I${CMAKE_SOURCE_DIR}/src" "-D${HEARTH_KERNELS_INTERFACE}"
        -MD -MT "${object}" -MF "${object}.d" -c "${source}" -o "${object}"
      DEPENDS "${source}" DEPFILE "${object}.d" COMMENT "${target}: ${name}.cu" VERBATIM)
    list(APPEND objects "${object}")
  endforeach()
  set(library "${CMAKE_BINARY_DIR}/bin/lib${target}.so")
  add_custom_command(OUTPUT "${library}"
    COMMAND "${compiler}" -shared ${arg_LINK} -o "${library}" ${objects}
    DEPENDS ${objects} COMMENT "${target}: bin/lib${target}.so" VERBATIM)
  add_custom_target(${target} DEPENDS "${library}")
endfunction()

# LibTorch and the runtime are in the process before this library is loaded: it names no folder of theirs, and uses
# LibTorch's runtime.
function(hearth_graph_library)
  get_filename_component(toolkit "${HEARTH_NVCC}" REALPATH)
  get_filename_component(toolkit "${toolkit}" DIRECTORY)
  find_path(HEARTH_CUDA_HEADERS cuda_runtime_api.h
    HINTS "${toolkit}/../include" "${toolkit}/../targets/x86_64-linux/include")
  if(NOT HEARTH_CUDA_HEADERS OR NOT LibTorch_HAS_CUDA)
    return()
  endif()
  file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/src/graph/*.cpp")
  add_library(hearth_cuda_graph MODULE EXCLUDE_FROM_ALL ${sources})
  target_include_directories(hearth_cuda_graph PRIVATE "${CMAKE_SOURCE_DIR}/src")
  target_include_directories(hearth_cuda_graph SYSTEM PRIVATE "${HEARTH_CUDA_HEADERS}")
  target_link_libraries(hearth_cuda_graph PRIVATE
    LibTorch::LibTorch "${LibTorch_DIR_USED}/lib/libc10_cuda.so" "${LibTorch_DIR_USED}/lib/libtorch_cuda.so"
    hearth_warnings)
  set_target_properties(hearth_cuda_graph PROPERTIES
    LIBRARY_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bin" CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
    BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "")
endfunction()

# Whether the setting is ON, or AUTO with a GPU here.
function(hearth_wants_gpu result setting compiler name device)
  set(${result} FALSE PARENT_SCOPE)
  if(setting STREQUAL "AUTO")
    if(compiler AND EXISTS "${device}")
      set(${result} TRUE PARENT_SCOPE)
    endif()
  elseif(setting)
    if(NOT compiler)
      message(FATAL_ERROR "GPU kernels are asked for, but there is no ${name}\nfix: install it, or put it on PATH")
    endif()
    set(${result} TRUE PARENT_SCOPE)
  endif()
endfunction()

# Adds the library to `all`, and installs it next to the programs.
function(hearth_build_gpu_library target)
  set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL FALSE)
  message(STATUS "GPU kernels: ${target}")
  install(PROGRAMS "${CMAKE_BINARY_DIR}/bin/lib${target}.so" DESTINATION bin)
endfunction()

hearth_wants_gpu(wants_cuda "${HEARTH_CUDA}" "${HEARTH_NVCC}" nvcc /proc/driver/nvidia/version)
hearth_wants_gpu(wants_hip "${HEARTH_HIP}" "${HEARTH_HIPCC}" hipcc /dev/kfd)
# Only tests build a library that is not wanted, to see that the compiler accepts the kernels. Code for one kind of GPU
# shows that in less than half of the time.
if(HEARTH_NVCC)
  execute_process(COMMAND "${HEARTH_NVCC}" --version OUTPUT_VARIABLE version)
  string(REGEX REPLACE ".*release ([0-9]+\\.[0-9]+).*" "\\1" version "${version}")
  set(newest 90)
  if(wants_cuda AND version VERSION_GREATER_EQUAL 12.8)
    set(newest 100)
  endif()
  # Machine code for each target, and PTX of the newest for later GPUs.
  set(targets -gencode "arch=compute_${newest},code=[sm_${newest},compute_${newest}]")
  foreach(architecture IN ITEMS 80 90)
    if(wants_cuda AND architecture LESS newest)
      list(APPEND targets -gencode "arch=compute_${architecture},code=sm_${architecture}")
    endif()
  endforeach()
  set(level -O3)
  if(NOT wants_cuda AND NOT HEARTH_WERROR)
    set(level -O1 -Xcicc -O1 -Xptxas -O1)
  endif()
  hearth_gpu_library(hearth_cuda "${HEARTH_NVCC}" "${wants_cuda}"
    COMPILE ${HEARTH_NVCC_FLAGS} ${level} ${targets} LINK -cudart static ${targets})
  hearth_graph_library()
endif()
if(HEARTH_HIPCC)
  execute_process(COMMAND "${HEARTH_HIPCC}" --version OUTPUT_VARIABLE version ERROR_QUIET)
  string(REGEX REPLACE ".*HIP version: ([0-9]+\\.[0-9]+).*" "\\1" version "${version}")
  set(targets --offload-arch=gfx90a)
  if(wants_hip AND version VERSION_GREATER_EQUAL 6.0)
    list(APPEND targets --offload-arch=gfx942)
  endif()
  set(level -O3)
  if(NOT wants_hip AND NOT HEARTH_WERROR)
    set(level -O0)
  endif()
  hearth_gpu_library(hearth_hip "${HEARTH_HIPCC}" "${wants_hip}"
    COMPILE ${HEARTH_HIPCC_FLAGS} ${level} ${targets} LINK ${targets})
endif()

if(wants_cuda)
  hearth_build_gpu_library(hearth_cuda)
  if(TARGET hearth_cuda_graph)
    hearth_build_gpu_library(hearth_cuda_graph)
  endif()
endif()
if(wants_hip)
  hearth_build_gpu_library(hearth_hip)
endif()
