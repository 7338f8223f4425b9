// SPDX-License-Identifier: Apache-2.0
// Errors that a user meets: what happened, why, and how to fix it, with an exit code that a supervisor can act on.
//
// Exceptions end the command; an expected outcome ("no checkpoint yet") is a return value instead.
// HEARTH_CHECK is for our own bugs only: no user input may make it fail.
#pragma once

#include <fmt/core.h>

#include <exception>
#include <string>
#include <string_view>

namespace hearth {

// The exit code of the process. Scripts and Slurm jobs store it: never renumber.
enum class ExitCode : int {
  kDone = 0,
  kUser = 2,          // wrong input or configuration: do not retry
  kDamaged = 3,       // data or checkpoint damaged: stop and ask
  kHardware = 4,      // disk, network, device: retry elsewhere or later
  kBug = 5,           // ours: keep the logs
  kAskedToLeave = 75  // a signal asked us to stop; a checkpoint was written: requeue
};

// `what` is one line without a trailing full stop. `why` and `fix` may be empty. All three are printed on stderr as
//   error: WHAT
//     why: WHY
//     fix: FIX
class Error : public std::exception {
 public:
  Error(ExitCode code, std::string what, std::string why = {}, std::string fix = {});

  ExitCode code() const { return code_; }
  const std::string& message() const { return what_; }
  const std::string& why() const { return why_; }
  const std::string& fix() const { return fix_; }

  // The key of the run file that caused the error ("checkpoint.fresh"), or empty. config::throw_all adds the line.
  const std::string& key() const { return key_; }
  Error about(std::string key) const;

  // The lines above, without a trailing newline.
  const char* what() const noexcept override { return full_.c_str(); }

 private:
  ExitCode code_;
  std::string what_, why_, fix_, key_, full_;
};

// Short makers, so that a throw reads as a sentence.
Error user_error(std::string what, std::string why = {}, std::string fix = {});
Error damaged(std::string what, std::string why = {}, std::string fix = {});
// `error_number` is errno; its text becomes part of `why`. ENOSPC, EIO and the like are kHardware; ENOENT, EACCES,
// EROFS, ENOTDIR and the like (a wrong path) are kUser.
Error system_error(std::string what, int error_number, std::string fix = {});

[[noreturn]] void check_failed(const char* condition, const char* file, int line, std::string_view detail);

}  // namespace hearth

// An invariant of ours, checked in every build. The detail is a fmt format string with its arguments, and optional.
#define HEARTH_CHECK(condition, ...)                                                         \
  do {                                                                                       \
    if (!(condition)) [[unlikely]] {                                                         \
      ::hearth::check_failed(#condition, __FILE__, __LINE__, ::fmt::format("" __VA_ARGS__)); \
    }                                                                                        \
  } while (false)
