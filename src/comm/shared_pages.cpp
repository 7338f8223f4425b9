// SPDX-License-Identifier: Apache-2.0
#include "comm/shared_pages.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>

#include "base/error.h"

namespace hearth::comm {

SharedPages::SharedPages(size_t bytes) : bytes_(bytes) {
  fd_ = ::memfd_create("hearth", MFD_CLOEXEC);
  if (fd_ < 0 || ::ftruncate(fd_, static_cast<off_t>(bytes)) != 0)
    throw system_error(fmt::format("cannot make {} bytes of shared memory", bytes), errno);
  map();
}

SharedPages::SharedPages(const std::string& address, size_t bytes) : bytes_(bytes) {
  fd_ = ::open(address.c_str(), O_RDWR | O_CLOEXEC);
  if (fd_ < 0)
    throw system_error(fmt::format("cannot open {}, the memory of another rank", address), errno,
                       "ranks of one host have to run as one user and see each other in /proc");
  map();
}

void SharedPages::map() {
  void* memory = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
  if (memory == MAP_FAILED) {
    const int error = errno;
    ::close(fd_);
    throw system_error(fmt::format("cannot map {} bytes of shared memory", bytes_), error);
  }
  data_ = static_cast<std::byte*>(memory);
}

SharedPages::~SharedPages() {
  ::munmap(data_, bytes_);
  ::close(fd_);
}

std::string SharedPages::address() const { return fmt::format("/proc/{}/fd/{}", ::getpid(), fd_); }

std::unique_ptr<SharedPages> share_pages(Control& control, size_t bytes) {
  std::unique_ptr<SharedPages> pages;
  if (control.rank() == 0) pages = std::make_unique<SharedPages>(bytes);
  const std::string address = control.broadcast("the shared memory", pages ? pages->address() : std::string());
  if (!pages) pages = std::make_unique<SharedPages>(address, bytes);
  control.barrier("the shared memory is mapped");
  return pages;
}

}  // namespace hearth::comm
