# SPDX-License-Identifier: Apache-2.0
# libhearth_mpi.so: src/mpi compiled by an mpicxx, because MPI libraries have different binary interfaces.
find_program(HEARTH_MPICXX mpicxx DOC "The MPI compiler whose library ranks on several hosts use")

# Compiles it with `compiler` to folder/libhearth_mpi.so, as target `name`.
function(hearth_mpi_library name compiler folder)
  set(source "${CMAKE_SOURCE_DIR}/src/mpi/mpi_library.cpp")
  set(library "${folder}/libhearth_mpi.so")
  if(HEARTH_WERROR)
    set(werror -Werror)
  endif()
  add_custom_command(OUTPUT "${library}"
    COMMAND "${CMAKE_COMMAND}" -E make_directory "${folder}"
    COMMAND "${compiler}" -std=c++20 -O2 -fPIC -shared -fvisibility=hidden -Wall -Wextra ${werror}
      "-I${CMAKE_SOURCE_DIR}/src" "-D${HEARTH_MPI_ENTRY}" "${source}" -o "${library}"
    DEPENDS "${source}" "${CMAKE_SOURCE_DIR}/src/comm/mpi_library.h"
    COMMENT "MPI with ${compiler}" VERBATIM)
  add_custom_target(${name} ALL DEPENDS "${library}")
endfunction()

if(HEARTH_MPICXX)
  message(STATUS "MPI: ${HEARTH_MPICXX}")
  hearth_mpi_library(hearth_mpi "${HEARTH_MPICXX}" "${CMAKE_BINARY_DIR}/bin")
  install(PROGRAMS "${CMAKE_BINARY_DIR}/bin/libhearth_mpi.so" DESTINATION bin)
else()
  message(STATUS "MPI: no mpicxx; ranks on several hosts are not possible")
endif()
