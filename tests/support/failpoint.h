// SPDX-License-Identifier: Apache-2.0
// Makes the N-th call that changes the disk fail. failpoint.cpp replaces functions of libc in two ways. Linked into a
// test binary, it covers the test's own calls. As tests/libhearth_failpoint.so, which the loader puts before libc, it
// covers a program that a test starts.
//
// Calls count from 1, over all threads: open with O_CREAT, mkdir, write, fsync, rename, unlink and rmdir. Only files
// and folders count, not stdout and stderr. A failing write first writes half of its bytes, as a full disk does. link
// is recorded, but neither counted nor made to fail: a file that cannot be linked is copied.
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

// The calls in their order, for checks of what a power cut may lose. "create", "write", "fsync", "rename" (of `path` to
// another name) or "remove".
struct Call {
  std::string what;
  std::filesystem::path path;
};
void record(std::vector<Call>* calls);  // appends until record(nullptr)

// "NAME=value" for a program whose N-th call must fail. `where` is "N:ENOSPC", "N:EIO", or "N:KILL", which ends the
// program there by SIGKILL, like a power cut. "N:ENOSPC:PART" counts only files whose path has PART in it.
inline std::vector<std::string> environment(const std::string& where) {
  const char* sanitizer = std::getenv("ASAN_OPTIONS");
  return {"LD_PRELOAD=" HEARTH_BUILD_DIR "/tests/libhearth_failpoint.so",
          // The address sanitizer asks to be the first library; it also works as the second.
          "ASAN_OPTIONS=" + std::string(sanitizer != nullptr ? sanitizer : "") + ":verify_asan_link_order=0",
          "HEARTH_FAILPOINT=" + where};
}

}  // namespace hearth::failpoint
