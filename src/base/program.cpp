// SPDX-License-Identifier: Apache-2.0
#include "base/program.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <system_error>

#include "base/error.h"
#include "base/log.h"

namespace hearth {
namespace {

std::atomic<uint64_t> progress = 0;  // of the process
thread_local int num_no_progress = 0;

Error stdout_error(int error_number) {
  const std::string what = "the result cannot be written to standard output";
  const std::string fix = "give the command another output, and run it again";
  return error_number == EBADF ? user_error(what, "it is closed", fix) : system_error(what, error_number, fix);
}

// Runs `body`, then writes what is left in stdout's buffer.
int run_and_flush(int (*body)(int argc, char** argv), int argc, char** argv) {
  try {
    const int code = body(argc, argv);
    if (std::fflush(stdout) != 0) throw stdout_error(errno);
    if (std::ferror(stdout) != 0) throw stdout_error(EIO);  // an earlier write failed
    return code;
  } catch (const std::system_error& e) {  // fmt::print's
    if (std::ferror(stdout) == 0) throw;
    throw stdout_error(e.code().value());
  }
}

}  // namespace

int run_and_report(int (*body)(int argc, char** argv), int argc, char** argv) {
  open_closed_streams();
  try {
    return run_and_flush(body, argc, argv);
  } catch (const Error& e) {
    log_message(LogLevel::kError, e.what());
    return static_cast<int>(e.code());
  } catch (const std::exception& e) {
    log_error(
        "error: {}\n  why: an internal error; this is a bug in Hearth\n  fix: please report it with the command line",
        e.what());
  } catch (...) {
    log_message(LogLevel::kError, "error: an unknown exception; this is a bug in Hearth");
  }
  return static_cast<int>(ExitCode::kBug);
}

void open_closed_streams() {
  // open() takes the smallest number that is free. Reading only: a result that is written to stdout is an error.
  for (int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (::fcntl(stream, F_GETFD) < 0 && errno == EBADF)
      ::open("/dev/null", stream == STDERR_FILENO ? O_WRONLY : O_RDONLY);
}

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
