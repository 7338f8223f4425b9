// Memory that a kernel works in, kept from call to call: the pool's threads would otherwise allocate, and fault in,
// megabytes at every step.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hearth::ops {

// Several may be in use at once: what describes a call, what its tasks share, and what each of them has for itself.
enum class Scratch { kDescription, kShared, kTask };

// At least `size_bytes` that belong to the calling thread until its next call for the same purpose, 64-byte aligned,
// contents undefined. Grows to the largest size asked for and is freed when the thread ends.
std::byte* thread_scratch(Scratch purpose, int64_t size_bytes);

// What all threads hold together.
int64_t scratch_bytes();

template <class T>
T* thread_scratch(Scratch purpose, int64_t count) {
  return reinterpret_cast<T*>(thread_scratch(purpose, count * static_cast<int64_t>(sizeof(T))));
}

}  // namespace hearth::ops
