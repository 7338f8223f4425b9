// Makes the N-th call that changes the disk fail. failpoint.cpp takes the place of libc's functions, in two ways:
// linked into a test binary, for what the test itself calls; and as tests/libhearth_failpoint.so, which a test has the
// loader put before libc in a program that it starts.
//
// Calls count from 1, over all threads: open with O_CREAT, mkdir, write, fsync, rename, unlink and rmdir; of files and
// folders alone, and not of stdout and stderr. A failing write first writes half of its bytes, as a full disk does.
// link is recorded and neither counted nor made to fail: what cannot be linked is copied.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

namespace hearth::failpoint {

void arm(int64_t nth_call, int error_number);  // that call fails, once
void disarm();
int64_t calls();  // since the last arm() or disarm()

// What the calls are, in the order in which they happen, so that a test can hold them against what a power cut may
// lose. "create", "write", "fsync", "rename" (of `path` to something) or "remove".
struct Call {
  std::string what;
  std::filesystem::path path;
};
void record(std::vector<Call>* calls);  // appends until record(nullptr)

// "NAME=value" for a program whose N-th call has to fail. `where` is "N:ENOSPC", "N:EIO", or "N:KILL", which ends the
// program there by SIGKILL, as a power cut does.
inline std::vector<std::string> environment(const std::string& where) {
  const char* sanitizer = std::getenv("ASAN_OPTIONS");
  return {"LD_PRELOAD=" HEARTH_BUILD_DIR "/tests/libhearth_failpoint.so",
          // The address sanitizer wants its library to come first, and works where it comes second, too.
          "ASAN_OPTIONS=" + std::string(sanitizer != nullptr ? sanitizer : "") + ":verify_asan_link_order=0",
          "HEARTH_FAILPOINT=" + where};
}

}  // namespace hearth::failpoint
