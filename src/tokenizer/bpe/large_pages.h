// SPDX-License-Identifier: Apache-2.0
// Memory for tables with random access. It is in pages of 2 MB if the kernel grants them, so a look-up causes fewer TLB
// misses.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <new>
#include <vector>

namespace hearth::tokenizer {

template <typename T>
struct LargePages {
  using value_type = T;
  static constexpr size_t kPageBytes = size_t{2} << 20;

  LargePages() = default;
  template <typename U>
  LargePages(const LargePages<U>&) {}
  bool operator==(const LargePages&) const { return true; }

  T* allocate(size_t n) {
    const size_t bytes = n * sizeof(T);
    if (bytes < kPageBytes / 2) return static_cast<T*>(::operator new(bytes));
    void* memory = ::operator new (bytes, std::align_val_t{kPageBytes});
    ::madvise(memory, bytes, MADV_HUGEPAGE);  // advice only: without large pages the program is slower, but correct
    return static_cast<T*>(memory);
  }
  void deallocate(T* memory, size_t n) {
    if (n * sizeof(T) < kPageBytes / 2)
      ::operator delete(memory);
    else
      ::operator delete (memory, std::align_val_t{kPageBytes});
  }
};

template <typename T>
using LargeTable = std::vector<T, LargePages<T>>;

}  // namespace hearth::tokenizer
