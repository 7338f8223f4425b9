// SPDX-License-Identifier: Apache-2.0
#undef _FORTIFY_SOURCE  // otherwise libc's headers define some of these functions themselves
#include "failpoint.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string_view>

namespace hearth::failpoint {
namespace {

constexpr int kKill = -1;
std::atomic<int64_t> call_count{0};
std::atomic<int64_t> failing_call{0};
std::atomic<int> failing_errno{0};
std::string_view failing_path;  // only files with this in their path count; empty: all. Set before main()
std::mutex record_mutex;
std::vector<Call>* recorded = nullptr;

// The names of the files opened while calls are recorded. Never destroyed: files are still closed and written when the
// process ends.
std::map<int, std::filesystem::path>& opened() {
  static auto* const paths = new std::map<int, std::filesystem::path>();
  return *paths;
}

// The next function of this name: libc's, or a sanitizer's that precedes it.
template <class Function>
Function* next(const char* name) {
  void* const found = ::dlsym(RTLD_NEXT, name);
  if (found == nullptr) std::abort();
  return reinterpret_cast<Function*>(found);
}

bool is_on_disk(int fd) {
  struct stat info {};
  return fd > STDERR_FILENO && ::fstat(fd, &info) == 0 && (S_ISREG(info.st_mode) || S_ISDIR(info.st_mode));
}

std::filesystem::path path_of(int fd) {
  if (const auto found = opened().find(fd); found != opened().end()) return found->second;
  char target[PATH_MAX];
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  const ssize_t size = ::readlink(link.c_str(), target, sizeof target);
  return std::string(target, size < 0 ? 0 : static_cast<size_t>(size));
}

std::filesystem::path path_of_entry(int folder, const char* name) {
  const std::lock_guard lock(record_mutex);
  return recorded == nullptr ? std::filesystem::path(name) : path_of(folder) / name;
}

void note_path(const char* what, const std::filesystem::path& path) {
  const std::lock_guard lock(record_mutex);
  if (recorded != nullptr) recorded->push_back({what, path});
}

void note_file(const char* what, int fd) {
  const std::lock_guard lock(record_mutex);
  if (recorded != nullptr) recorded->push_back({what, path_of(fd)});
}

// True if this call must fail; errno is then set.
bool fails() {
  if (++call_count != failing_call) return false;
  if (failing_errno == kKill) std::raise(SIGKILL);
  errno = failing_errno;
  return true;
}

bool counts(const std::filesystem::path& path) {
  return failing_path.empty() || path.native().find(failing_path) != std::string::npos;
}

bool path_fails(const char* what, const std::filesystem::path& path) {
  note_path(what, path);
  return counts(path) && fails();
}

bool file_fails(const char* what, int fd) {
  note_file(what, fd);
  return (failing_path.empty() || counts(path_of(fd))) && fails();
}

template <class Open>
int open_file(Open* real, const char* path, int flags, mode_t mode) {
  if ((flags & O_CREAT) != 0 && path_fails("create", path)) return -1;
  const int fd = real(path, flags, mode);
  const std::lock_guard lock(record_mutex);
  if (fd >= 0 && recorded != nullptr) opened()[fd] = path;
  return fd;
}

template <class PositionalWrite>
ssize_t write_file_at(PositionalWrite* real, int fd, const void* bytes, size_t size, off_t offset) {
  if (!is_on_disk(fd) || !file_fails("write", fd)) return (*real)(fd, bytes, size, offset);
  const int error_number = errno;
  (void)(*real)(fd, bytes, size / 2, offset);
  errno = error_number;
  return -1;
}

template <class Sync>
int sync_file(Sync* real, int fd) {
  return is_on_disk(fd) && file_fails("fsync", fd) ? -1 : real(fd);
}

// For a program that a test starts.
[[gnu::constructor]] void read_environment() {
  const char* text = std::getenv("HEARTH_FAILPOINT");
  if (text == nullptr) return;
  char* end = nullptr;
  failing_call = std::strtoll(text, &end, 10);
  std::string_view name = *end == ':' ? end + 1 : "";
  if (const size_t colon = name.find(':'); colon != std::string_view::npos) {
    failing_path = name.substr(colon + 1);
    name = name.substr(0, colon);
  }
  failing_errno = name == "ENOSPC" ? ENOSPC : name == "EIO" ? EIO : name == "KILL" ? kKill : 0;
  if (failing_errno != 0) return;
  std::fprintf(stderr, "HEARTH_FAILPOINT=%s: expected N:ENOSPC, N:EIO or N:KILL, and :PATH\n", text);
  std::abort();
}

}  // namespace

void arm(int64_t nth_call, int error_number) {
  call_count = 0;
  failing_errno = error_number;
  failing_call = nth_call;
}
void disarm() { arm(0, 0); }
int64_t calls() { return call_count; }
void record(std::vector<Call>* calls) {
  const std::lock_guard lock(record_mutex);
  opened().clear();
  recorded = calls;
}

}  // namespace hearth::failpoint

using namespace hearth::failpoint;

extern "C" {

int open(const char* path, int flags, ...) {
  static auto* const real = next<int(const char*, int, mode_t)>("open");
  std::va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  return open_file(real, path, flags, mode);
}

ssize_t write(int fd, const void* bytes, size_t size) {
  static auto* const real = next<ssize_t(int, const void*, size_t)>("write");
  const auto at_the_end = [](int f, const void* b, size_t n, off_t) { return real(f, b, n); };
  return write_file_at(&at_the_end, fd, bytes, size, 0);
}

ssize_t pwrite(int fd, const void* bytes, size_t size, off_t offset) {
  static auto* const real = next<ssize_t(int, const void*, size_t, off_t)>("pwrite");
  return write_file_at(real, fd, bytes, size, offset);
}

int fsync(int fd) {
  static auto* const real = next<int(int)>("fsync");
  return sync_file(real, fd);
}

int fdatasync(int fd) {
  static auto* const real = next<int(int)>("fdatasync");
  return sync_file(real, fd);
}

// HEARTH_LOCAL_LOCKS: as on a file system whose locks do not reach other hosts.
int flock(int fd, int operation) noexcept {
  static auto* const real = next<int(int, int)>("flock");
  return std::getenv("HEARTH_LOCAL_LOCKS") != nullptr ? 0 : real(fd, operation);
}

int rename(const char* from, const char* to) noexcept {
  static auto* const real = next<int(const char*, const char*)>("rename");
  return path_fails("rename", from) ? -1 : real(from, to);
}

int mkdir(const char* path, mode_t mode) noexcept {
  static auto* const real = next<int(const char*, mode_t)>("mkdir");
  return path_fails("create", path) ? -1 : real(path, mode);
}

int unlink(const char* path) noexcept {
  static auto* const real = next<int(const char*)>("unlink");
  return path_fails("remove", path) ? -1 : real(path);
}

int rmdir(const char* path) noexcept {
  static auto* const real = next<int(const char*)>("rmdir");
  return path_fails("remove", path) ? -1 : real(path);
}

// std::filesystem::remove_all calls this one and unlinkat.
int remove(const char* path) noexcept {
  static auto* const real = next<int(const char*)>("remove");
  return path_fails("remove", path) ? -1 : real(path);
}

int unlinkat(int folder, const char* name, int flags) noexcept {
  static auto* const real = next<int(int, const char*, int)>("unlinkat");
  const std::filesystem::path path = path_of_entry(folder, name);
  return path_fails("remove", path) ? -1 : real(folder, name, flags);
}

int link(const char* from, const char* to) noexcept {
  static auto* const real = next<int(const char*, const char*)>("link");
  note_path("create", to);
  return real(from, to);
}

}  // extern "C"
