// SPDX-License-Identifier: Apache-2.0
// The differences between nvcc, hipcc and another compiler: everything else in this folder is one source for all.
// Another compiler needs a header before each file that defines __global__, threadIdx, __syncthreads and so on, the
// namespace hearth::host that this folder calls, and HEARTH_HOST_PLATFORM.
#pragma once

#include <cstdint>

#if defined(__HIPCC__)
#include <hip/hip_runtime.h>
#elif defined(__CUDACC__)
#include <cuda_runtime.h>
#elif !defined(HEARTH_HOST_PLATFORM)
#error "compile with nvcc or hipcc, or include a header that defines a platform before this file"
#endif

namespace hearth::kernels {

// Threads that exchange values without a barrier: 32 on NVIDIA's GPUs, 64 on gfx90a. Blocks are always multiples of 64.
inline constexpr int kFewestLanes = 32, kBlockMultiple = 64, kMaxThreads = 1024;

#if defined(__HIPCC__)

#if defined(__AMDGCN_WAVEFRONT_SIZE)
__device__ constexpr int lanes() { return __AMDGCN_WAVEFRONT_SIZE; }
#else
__device__ constexpr int lanes() { return 64; }  // for the host's half of the compilation, which never runs it
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

inline int lanes() { return host::lanes(); }
template <class Value>
Value shuffle_xor(Value value, int distance) {
  return host::shuffle_xor(value, distance);
}

#endif

}  // namespace hearth::kernels
