// SPDX-License-Identifier: Apache-2.0
// Notes, warnings and errors of a program. Each is a plain line on stderr. Results (tables, reports, the lines of a
// training's steps) are printed to stdout. A training also logs messages to a file for each rank, with time, rank and
// level.
//
// Several starts of a job may write one log at the same time. So an error on stderr names its start, which the job's
// script gives in the environment: "error: WHAT (start 2.1)" with HEARTH_SPEAKER="start 2.1" (cluster/job_log.h).
//
// Both use spdlog. Its headers are included in log.cpp only: they take over a second to compile.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <memory>
#include <string_view>

#include "base/file.h"

namespace spdlog {
class logger;
}

namespace hearth {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

inline constexpr const char* kSpeakerVariable = "HEARTH_SPEAKER";

// One message on stderr. Messages of level kDebug go to log files only.
void log_message(LogLevel level, std::string_view text);

template <class... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
  log_message(LogLevel::kInfo, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void log_error(fmt::format_string<Args...> format, Args&&... args) {
  log_message(LogLevel::kError, fmt::format(format, std::forward<Args>(args)...));
}

// FOLDER/rank-00000.log. An existing file is continued. Every message is in the file when write() returns; none is
// fsynced.
class RankLog {
 public:
  // Makes the folder. Throws if the file cannot be opened.
  RankLog(const Path& folder, int64_t rank);

  // Any thread may call this. A full disk does not end a training: spdlog reports it on stderr.
  void write(LogLevel level, std::string_view text);

 private:
  std::shared_ptr<spdlog::logger> logger_;
};

}  // namespace hearth
