// SPDX-License-Identifier: Apache-2.0
// Working memory of kernels, kept from call to call. Without it the pool's threads would allocate, and fault in,
// megabytes at every step.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hearth::ops {

// Several may be in use at once: a call's description, its tasks' shared part, and each task's own part.
enum class Scratch { kDescription, kShared, kTask };

// At least `size_bytes`, 64-byte aligned, contents undefined. They belong to the calling thread until its next call for
// the same purpose. Grows to the largest size asked for and is freed when the thread ends.
std::byte* thread_scratch(Scratch purpose, int64_t size_bytes);

// The sum over all threads.
int64_t scratch_bytes();

template <class T>
T* thread_scratch(Scratch purpose, int64_t count) {
  return reinterpret_cast<T*>(thread_scratch(purpose, count * static_cast<int64_t>(sizeof(T))));
}

}  // namespace hearth::ops
