# SPDX-License-Identifier: Apache-2.0
# Finds the Arrow and Parquet libraries in a pyarrow wheel: shared libraries with a version in their names, and headers.
# The wheel's own find modules expect other names.
#
# Input, the first that is set wins:
#   HEARTH_ARROW         (cache or environment) a folder with include/ and libarrow.so.N: .../site-packages/pyarrow
#   .deps/arrow/pyarrow  where scripts/setup.sh puts the pinned wheel
# Output: imported target PyArrow::PyArrow, PyArrow_VERSION, PyArrow_DIR_USED, PyArrow_LIBRARIES (files).
include(FindPackageHandleStandardArgs)

if(HEARTH_ARROW)
  set(_arrow_folder "${HEARTH_ARROW}")
elseif(DEFINED ENV{HEARTH_ARROW})
  set(_arrow_folder "$ENV{HEARTH_ARROW}")
else()
  set(_arrow_folder "${CMAKE_SOURCE_DIR}/.deps/arrow/pyarrow")
endif()

# The wheel may be installed after the first configuration: the next build then configures again.
set(PyArrow_LIBRARIES)
foreach(_name arrow parquet)
  file(GLOB _found CONFIGURE_DEPENDS "${_arrow_folder}/lib${_name}.so.*")
  list(APPEND PyArrow_LIBRARIES ${_found})
endforeach()
list(LENGTH PyArrow_LIBRARIES _count)
set(_arrow_header "${_arrow_folder}/include/arrow/util/config.h")
if(_count EQUAL 2 AND EXISTS "${_arrow_header}")
  file(STRINGS "${_arrow_header}" _arrow_version REGEX "define ARROW_VERSION_STRING ")
  string(REGEX REPLACE ".*\"(.*)\".*" "\\1" PyArrow_VERSION "${_arrow_version}")
  set(PyArrow_DIR_USED "${_arrow_folder}")
else()
  unset(PyArrow_DIR_USED)
endif()

find_package_handle_standard_args(PyArrow
  REQUIRED_VARS PyArrow_DIR_USED
  VERSION_VAR PyArrow_VERSION
  REASON_FAILURE_MESSAGE "run scripts/setup.sh, or set HEARTH_ARROW to a pyarrow folder (looked in: ${_arrow_folder})")

if(PyArrow_FOUND AND NOT TARGET PyArrow::PyArrow)
  add_library(PyArrow::PyArrow INTERFACE IMPORTED)
  target_include_directories(PyArrow::PyArrow SYSTEM INTERFACE "${PyArrow_DIR_USED}/include")
  target_link_libraries(PyArrow::PyArrow INTERFACE ${PyArrow_LIBRARIES})
endif()
