// SPDX-License-Identifier: Apache-2.0
// A GPU on the host, for tests: the kernels of src/kernels compiled by the host's compiler, with this header before
// each file. Every thread of a block is a fiber: shared memory, __syncthreads and shuffles between lanes behave as on a
// GPU. In a kernel without barriers a thread is one function call. Orders that a GPU does not define are scrambled: of
// blocks, of a block's threads between two barriers, and how far a warp gets ahead of another. A barrier that not all
// threads reach is an error, with its line.
//
// Each host thread has its own emulator.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#define HEARTH_HOST_PLATFORM
#define __global__
#define __device__
#define __host__
#define __launch_bounds__(...)
#define __shared__ static thread_local

#define HEARTH_EXPORT __attribute__((visibility("default")))

namespace hearth::emulator {

struct Coordinates {
  uint32_t x = 0;
};

inline constexpr int kDivergentBarrier = 1;

HEARTH_EXPORT int lanes();
HEARTH_EXPORT void set_lanes(int lanes);  // 32 or 64, for all host threads

// Runs body() as each thread of each block. Returns 0 or an error code; error_text describes the last error.
template <class Body>
int run(int64_t blocks, int threads, const Body& body);
HEARTH_EXPORT const char* error_text();

HEARTH_EXPORT int run(int64_t blocks, int threads, void (*body)(const void*), const void* context);
template <class Body>
int run(int64_t blocks, int threads, const Body& body) {
  return run(
      blocks, threads, [](const void* context) { (*static_cast<const Body*>(context))(); }, &body);
}

// Return when all threads of the block, or all lanes of the warp, have arrived. `line` identifies a barrier.
HEARTH_EXPORT void wait_for_block(int line);
HEARTH_EXPORT void wait_for_warp(int line);

// This thread's value for the others of its warp. Two slots in alternation: no value is overwritten before it is read.
HEARTH_EXPORT void* slot_of(int64_t thread);
HEARTH_EXPORT void next_slot();

template <class Value>
Value shuffle_xor(Value value, int distance, int line = __builtin_LINE());

}  // namespace hearth::emulator

// GPU code finds these without a namespace.
[[gnu::tls_model("initial-exec")]] HEARTH_EXPORT inline thread_local hearth::emulator::Coordinates threadIdx, blockIdx,
    blockDim, gridDim;

namespace hearth::emulator {

template <class Value>
Value shuffle_xor(Value value, int distance, int line) {
  static_assert(std::is_trivially_copyable_v<Value> && sizeof(Value) <= 8);
  next_slot();
  std::memcpy(slot_of(threadIdx.x), &value, sizeof value);
  wait_for_warp(line);
  std::memcpy(&value, slot_of(threadIdx.x ^ static_cast<uint32_t>(distance)), sizeof value);
  return value;
}

}  // namespace hearth::emulator

namespace hearth {
namespace host = emulator;  // as src/kernels/ calls it
}

inline void __syncthreads(int line = __builtin_LINE()) { hearth::emulator::wait_for_block(line); }
inline float __uint_as_float(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
inline uint32_t __float_as_uint(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}
inline uint32_t atomicMax(uint32_t* to, uint32_t value) {
  const uint32_t before = *to;
  if (before < value) *to = value;
  return before;
}
