// SPDX-License-Identifier: Apache-2.0
#include "base/program.h"

#include <fmt/core.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <limits>

namespace hearth {
namespace {

std::atomic<uint64_t> progress = 0;  // of the process
thread_local int num_no_progress = 0;

}  // namespace

void raise_open_files_limit() {
  constexpr rlim_t kMost = 1 << 20;  // some programs that are started close every number up to the limit
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= std::min(limit.rlim_max, kMost)) return;
  limit.rlim_cur = std::min(limit.rlim_max, kMost);
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

int64_t open_files_limit() {
  rlimit limit{};
  const bool is_known = ::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  return is_known ? static_cast<int64_t>(limit.rlim_cur) : std::numeric_limits<int64_t>::max();
}

void note_progress() {
  if (num_no_progress == 0) progress.fetch_add(1, std::memory_order_relaxed);
}
uint64_t progress_count() { return progress.load(std::memory_order_relaxed); }
NoProgress::NoProgress() { ++num_no_progress; }
NoProgress::~NoProgress() { --num_no_progress; }

std::string version_text() {
  const std::string_view build = HEARTH_BUILD;
  return fmt::format("{} ({}, commit {})", HEARTH_VERSION, build.empty() ? "no build type" : build, source_commit());
}

std::string environment_variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::optional<Path> user_cache(std::string_view name) {
  if (const std::string cache = environment_variable("XDG_CACHE_HOME"); !cache.empty())
    return Path(cache) / "hearth" / name;
  const std::string home = environment_variable("HOME");
  return home.empty() ? std::nullopt : std::optional(Path(home) / ".cache" / "hearth" / name);
}

std::string host_name() {
  char name[256] = "";
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "unknown";
}

Path own_program() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error);
}

std::optional<Path> beside_program(std::string_view name) {
  const Path folder = own_program().parent_path();
  for (const Path& place : {folder / name, folder / ".." / "bin" / name, folder / ".." / "lib" / name})
    if (path_exists(place)) return place;
  return std::nullopt;
}

}  // namespace hearth
