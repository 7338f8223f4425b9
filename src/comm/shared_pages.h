// SPDX-License-Identifier: Apache-2.0
// Zero-filled memory that other processes of this host can map.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "comm/control.h"

namespace hearth::comm {

class SharedPages {
 public:
  // Makes `bytes` of new memory. Throws system_error.
  explicit SharedPages(size_t bytes);
  // Maps what another process made; `address` is its address(). Throws system_error.
  SharedPages(const std::string& address, size_t bytes);
  ~SharedPages();
  SharedPages(const SharedPages&) = delete;
  SharedPages& operator=(const SharedPages&) = delete;

  std::byte* data() const { return data_; }
  // Where this user's processes on this host find the memory while this object lives: "/proc/PID/fd/N".
  std::string address() const;

 private:
  void map();

  int fd_ = -1;
  size_t bytes_;
  std::byte* data_ = nullptr;
};

// New memory of all ranks of one host, which rank 0 makes. Collective.
std::unique_ptr<SharedPages> share_pages(Control& control, size_t bytes);

}  // namespace hearth::comm
