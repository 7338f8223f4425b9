# SPDX-License-Identifier: Apache-2.0
# The commit that a program was built from (src/base/program.h), found again at every build. Target hearth_commit is one
# small object file. Only programs are linked with it: a new commit compiles this file and links them, and nothing else.
# As a script, `cmake -D SOURCE=ROOT -D OUT=FILE -P SourceCommit.cmake`, this file writes the source if it changed.
if(NOT CMAKE_SCRIPT_MODE_FILE)
  set(HEARTH_COMMIT_SOURCE "${CMAKE_BINARY_DIR}/generated/source_commit.cpp")
  add_custom_target(hearth_commit_source BYPRODUCTS "${HEARTH_COMMIT_SOURCE}"
    COMMAND "${CMAKE_COMMAND}" -D "SOURCE=${CMAKE_SOURCE_DIR}" -D "OUT=${HEARTH_COMMIT_SOURCE}"
      -P "${CMAKE_CURRENT_LIST_FILE}"
    COMMENT "" VERBATIM)
  add_library(hearth_commit OBJECT "${HEARTH_COMMIT_SOURCE}")
  target_include_directories(hearth_commit PRIVATE "${CMAKE_SOURCE_DIR}/src")
  add_dependencies(hearth_commit hearth_commit_source)
  return()
endif()

function(git_says result)
  execute_process(COMMAND git -C "${SOURCE}" ${ARGN} OUTPUT_VARIABLE said ERROR_QUIET RESULT_VARIABLE code
    OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT code EQUAL 0)
    set(said "")
  endif()
  set(${result} "${said}" PARENT_SCOPE)
endfunction()

# Only a repository whose root is SOURCE: an archive may have been unpacked within another project's.
git_says(root rev-parse --show-toplevel)
git_says(commit rev-parse --short=12 HEAD)
file(REAL_PATH "${SOURCE}" here)
if(NOT root STREQUAL here OR commit STREQUAL "")
  set(commit "unknown")
else()
  set(built CMakeLists.txt CMakePresets.json cmake src)
  git_says(changes diff HEAD --binary -- ${built})
  git_says(new ls-files --others --exclude-standard -- ${built})
  if(NOT changes STREQUAL "" OR NOT new STREQUAL "")
    string(REPLACE "\n" ";" names "${new}")
    foreach(name IN LISTS names)
      file(SHA256 "${SOURCE}/${name}" hash)
      string(APPEND changes "\n${name} ${hash}")
    endforeach()
    string(SHA256 hash "${changes}")
    string(SUBSTRING "${hash}" 0 12 hash)
    string(APPEND commit " with changes ${hash}")
  endif()
endif()
file(CONFIGURE OUTPUT "${OUT}" CONTENT "#include \"base/program.h\"

namespace hearth {
std::string_view source_commit() { return \"${commit}\"; }
}  // namespace hearth
")
