// SPDX-License-Identifier: Apache-2.0
#include "base/direct_io.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace hearth {

bool set_direct(const File& file, bool direct) {
  const int flags = ::fcntl(file.descriptor(), F_GETFL);
  return flags >= 0 && ::fcntl(file.descriptor(), F_SETFL, direct ? flags | O_DIRECT : flags & ~O_DIRECT) == 0;
}

void DirectWriter::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::span<std::byte> room = buffer_.bytes().subspan(used_);
    const size_t now = std::min(room.size(), bytes.size());
    std::memcpy(room.data(), bytes.data(), now);
    used_ += now;
    bytes = bytes.subspan(now);
    if (used_ == kBufferBytes) write_whole();
  }
}

void DirectWriter::flush() {
  if (is_direct_) set_direct(file_, false);  // the rest need not be whole blocks
  if (used_ > 0) file_.write(buffer_.bytes().first(used_));
  written_ += static_cast<int64_t>(used_);
  used_ = 0;
}

void DirectWriter::write_whole() {
  if (written_ == 0) is_direct_ = set_direct(file_, true) && accepts_a_block();
  file_.write(buffer_.bytes());
  written_ += static_cast<int64_t>(kBufferBytes);
  used_ = 0;
}

// Some file systems refuse only the transfer. This one is repeated with the whole buffer.
bool DirectWriter::accepts_a_block() {
  if (::pwrite(file_.descriptor(), buffer_.bytes().data(), kDirectBlock, 0) == kDirectBlock) return true;
  set_direct(file_, false);
  return false;
}

}  // namespace hearth
