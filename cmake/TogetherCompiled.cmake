# SPDX-License-Identifier: Apache-2.0
# hearth_compile_together(target)
#
# Compiles the target's sources of one folder together, at most HEARTH_UNITY of them in one call of the compiler. Every
# call reads the same headers and instantiates the same templates, which is more than half of its time.
#
# CMake leaves sources alone that have flags or definitions of their own. So do we with Highway's, which include
# themselves once for every kind of vector.
function(hearth_compile_together target)
  if(HEARTH_UNITY LESS 2)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  set(folders)
  foreach(source IN LISTS sources)
    if(NOT source MATCHES "\\.cpp$" OR NOT EXISTS "${source}")
      continue()  # generated ones do not exist yet
    endif()
    file(STRINGS "${source}" includes_itself REGEX "^#define HWY_TARGET_INCLUDE" LIMIT_COUNT 1)
    if(includes_itself)
      continue()
    endif()
    cmake_path(GET source PARENT_PATH folder)
    cmake_path(RELATIVE_PATH folder BASE_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}")
    string(REPLACE "/" "_" folder "${folder}")
    list(APPEND folders "${folder}")
    list(APPEND sources_of_${folder} "${source}")
  endforeach()
  list(REMOVE_DUPLICATES folders)
  foreach(folder IN LISTS folders)
    # Even groups: 9 files and at most 8 together are 5 and 4.
    list(LENGTH sources_of_${folder} count)
    math(EXPR groups "(${count} + ${HEARTH_UNITY} - 1) / ${HEARTH_UNITY}")
    math(EXPR size "(${count} + ${groups} - 1) / ${groups}")
    set(index 0)
    foreach(source IN LISTS sources_of_${folder})
      math(EXPR group "${index} / ${size}")
      set_source_files_properties("${source}" PROPERTIES UNITY_GROUP "${folder}_${group}")
      math(EXPR index "${index} + 1")
    endforeach()
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()
