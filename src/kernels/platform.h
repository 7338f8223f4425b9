// What differs between nvcc, hipcc and the host: everything else in this folder is one source for the three. On the
// host tests put a header before each file, which defines __global__, threadIdx, __syncthreads and so on
// (tests/kernels/emulator.h).
#pragma once

#include <cstdint>

#if defined(__HIPCC__)
#include <hip/hip_runtime.h>
#elif defined(__CUDACC__)
#include <cuda_runtime.h>
#elif !defined(HEARTH_EMULATOR)
#error "nvcc, hipcc, or the host with tests/kernels/emulator.h before this file"
#endif

namespace hearth::kernels {

// Threads that exchange values without a barrier: 32 of NVIDIA's, 64 of gfx90a's. Blocks are always a multiple of 64.
inline constexpr int kFewestLanes = 32, kBlockUnit = 64, kMaxThreads = 1024;

#if defined(__HIPCC__)

#if defined(__AMDGCN_WAVEFRONT_SIZE)
__device__ constexpr int lanes() { return __AMDGCN_WAVEFRONT_SIZE; }
#else
__device__ constexpr int lanes() { return 64; }  // the host's half of the compilation: never runs
#endif
template <class Value>
__device__ inline Value shuffle_xor(Value value, int distance) {
  return __shfl_xor(value, distance);
}

#elif defined(__CUDACC__)

__device__ constexpr int lanes() { return 32; }
template <class Value>
__device__ inline Value shuffle_xor(Value value, int distance) {
  return __shfl_xor_sync(0xFFFFFFFFu, value, distance);
}

#else

inline int lanes() { return emulator::lanes(); }
template <class Value>
Value shuffle_xor(Value value, int distance) {
  return emulator::shuffle_xor(value, distance);
}

#endif

}  // namespace hearth::kernels
