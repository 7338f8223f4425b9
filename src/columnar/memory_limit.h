// SPDX-License-Identifier: Apache-2.0
// A limit on the memory for decoding a file: a small file can ask for any amount.
#pragma once

#include <arrow/memory_pool.h>
#include <arrow/status.h>

#include <atomic>
#include <string>

namespace hearth::columnar {

// The system's allocator with a limit on bytes held at a time; beyond it Status::OutOfMemory. Thread-safe.
class LimitedMemory final : public arrow::MemoryPool {
 public:
  explicit LimitedMemory(int64_t limit_bytes) : limit_bytes_(limit_bytes) {}

  using MemoryPool::Allocate;
  using MemoryPool::Free;
  using MemoryPool::Reallocate;

  arrow::Status Allocate(int64_t size, int64_t alignment, uint8_t** out) override {
    ARROW_RETURN_NOT_OK(take(size));
    return given_back_unless(system_->Allocate(size, alignment, out), size);
  }
  arrow::Status Reallocate(int64_t old_size, int64_t new_size, int64_t alignment, uint8_t** pointer) override {
    ARROW_RETURN_NOT_OK(take(new_size - old_size));
    return given_back_unless(system_->Reallocate(old_size, new_size, alignment, pointer), new_size - old_size);
  }
  void Free(uint8_t* buffer, int64_t size, int64_t alignment) override {
    system_->Free(buffer, size, alignment);
    held_bytes_ -= size;
  }
  void set_limit(int64_t limit_bytes) { limit_bytes_ = limit_bytes; }  // no other thread may use it meanwhile

  int64_t bytes_allocated() const override { return held_bytes_; }
  int64_t total_bytes_allocated() const override { return taken_bytes_; }
  int64_t num_allocations() const override { return num_allocations_; }
  std::string backend_name() const override { return "system, limited"; }

 private:
  arrow::Status take(int64_t size) {
    if (held_bytes_ + size > limit_bytes_)
      return arrow::Status::OutOfMemory("decoding it takes more than ", limit_bytes_,
                                        " bytes of memory (a larger --max-record-bytes allows more)");
    held_bytes_ += size;
    taken_bytes_ += size > 0 ? size : 0;
    ++num_allocations_;
    return arrow::Status::OK();
  }
  arrow::Status given_back_unless(arrow::Status status, int64_t size) {
    if (!status.ok()) held_bytes_ -= size;
    return status;
  }

  arrow::MemoryPool* system_ = arrow::system_memory_pool();
  int64_t limit_bytes_;
  std::atomic<int64_t> held_bytes_{0}, taken_bytes_{0}, num_allocations_{0};
};

}  // namespace hearth::columnar
