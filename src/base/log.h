// What a program says besides its results: notes, warnings and errors. Each is a line on stderr as it stands; results
// (tables, reports, the lines of a training's steps) go to stdout by print. A training also keeps what it says in a
// file for each rank, with time, rank and level.
//
// spdlog writes both. Its headers stay in log.cpp: they take a second and more to compile.
#pragma once

#include <fmt/core.h>

#include <cstdint>
#include <memory>
#include <string_view>

#include "base/file.h"

namespace hearth {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

// One message on stderr. kDebug is for files alone.
void log_message(LogLevel level, std::string_view text);

template <class... Args>
void log_info(fmt::format_string<Args...> format, Args&&... args) {
  log_message(LogLevel::kInfo, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void log_error(fmt::format_string<Args...> format, Args&&... args) {
  log_message(LogLevel::kError, fmt::format(format, std::forward<Args>(args)...));
}

// FOLDER/rank-00000.log. Opened again, it grows. Every message is in the file when write() returns; none is synced.
class RankLog {
 public:
  // Makes the folder. Throws where the file cannot be opened.
  RankLog(const Path& folder, int64_t rank);
  ~RankLog();
  RankLog(const RankLog&) = delete;
  RankLog& operator=(const RankLog&) = delete;

  // Any thread. A full disk ends no training: spdlog says so on stderr.
  void write(LogLevel level, std::string_view text);

 private:
  struct Logger;
  std::unique_ptr<Logger> logger_;
};

}  // namespace hearth
