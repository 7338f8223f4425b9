# hearth_link_cuda(TARGET): links libtorch_cuda and the CUDA runtime, after checking that everything the former needs is
# there. The wheel finds its libraries in the nvidia/ folder beside it: what `pip install torch` (with dependencies) makes.
function(hearth_link_cuda target)
  if(NOT LibTorch_HAS_CUDA)
    message(FATAL_ERROR "HEARTH_CUDA=ON, but ${LibTorch_DIR_USED}/lib has no libtorch_cuda.so\n"
      "fix: set HEARTH_LIBTORCH to the torch folder of a CUDA wheel")
  endif()
  find_package(CUDAToolkit 12.6 REQUIRED)

  set(cuda_library "${LibTorch_DIR_USED}/lib/libtorch_cuda.so")
  execute_process(COMMAND ldd "${cuda_library}" OUTPUT_VARIABLE needed ERROR_QUIET)
  string(REGEX MATCHALL "[^ \t\n]+ => not found" missing "${needed}")
  if(missing)
    list(TRANSFORM missing REPLACE " => not found" "")
    list(REMOVE_DUPLICATES missing)
    list(JOIN missing ", " missing)
    message(FATAL_ERROR "HEARTH_CUDA=ON, but ${cuda_library} needs libraries that are not there: ${missing}\n"
      "fix: install that wheel with its dependencies (scripts/setup.sh does not: a CPU needs none of them), "
      "then set HEARTH_LIBTORCH to its torch folder; .deps/oracle of scripts/setup.sh --oracle holds such a one")
  endif()

  target_compile_definitions(${target} PUBLIC HEARTH_CUDA)
  # Nothing refers to libtorch_cuda by name: it registers itself when loaded, so the linker must not drop it.
  target_link_libraries(${target} PUBLIC
    "-Wl,--no-as-needed" "${cuda_library}" "${LibTorch_DIR_USED}/lib/libc10_cuda.so" "-Wl,--as-needed" CUDA::cudart)
endfunction()
