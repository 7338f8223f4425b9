// Transfers between memory and the disk past the page cache (O_DIRECT): they cost the CPU nothing for a copy, and the
// system does not make a writer wait for others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>

#include "base/file.h"

namespace hearth::checkpoint {

// Places in memory and in the file, and lengths, are multiples of it.
inline constexpr int64_t kDirectBlock = 4096;

// Memory for such transfers.
class DirectBuffer {
 public:
  explicit DirectBuffer(size_t size)
      : bytes_(static_cast<std::byte*>(std::aligned_alloc(static_cast<size_t>(kDirectBlock), size))), size_(size) {
    if (bytes_ == nullptr) throw std::bad_alloc();
  }
  std::span<std::byte> bytes() const { return {bytes_.get(), size_}; }

 private:
  struct Free {
    void operator()(std::byte* bytes) const { std::free(bytes); }
  };
  std::unique_ptr<std::byte, Free> bytes_;
  size_t size_;
};

// Whether all transfers of the file are direct from now on. False: its file system has none, and nothing changes.
bool set_direct(const File& file, bool direct);

}  // namespace hearth::checkpoint
