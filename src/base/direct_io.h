// SPDX-License-Identifier: Apache-2.0
// Transfers between memory and the disk that bypass the page cache (O_DIRECT). The CPU copies nothing, and the system
// does not make a writer wait for the dirty pages of other programs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "base/file.h"

namespace hearth {

// Addresses in memory, offsets in the file and lengths of direct transfers are multiples of this.
inline constexpr int64_t kDirectBlock = 4096;

// Memory that is aligned for direct transfers.
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

// Switches direct transfers of the file on or off. False: its file system has no direct transfers, and nothing changes.
bool set_direct(const File& file, bool direct);

// Writes a new file from begin to end. It gathers small writes into transfers of 4 MiB, which are direct if the file
// system supports that. Use it for objects of a store, too: they then get large parts.
class DirectWriter {
 public:
  explicit DirectWriter(File file) : file_(std::move(file)) {}
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  // Hands the last bytes to the file. It does not fsync: call file().sync() for that. Call once, after the last
  // write().
  void flush();
  int64_t written() const { return written_; }  // bytes that the file has
  File& file() { return file_; }

  static constexpr size_t kBufferBytes = size_t{4} << 20;

 private:
  void write_whole();
  bool accepts_a_block();

  File file_;
  DirectBuffer buffer_{kBufferBytes};
  size_t used_ = 0;
  int64_t written_ = 0;
  bool is_direct_ = false;
};

}  // namespace hearth
