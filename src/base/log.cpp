// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <spdlog/logger.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <algorithm>
#include <cerrno>

#include "base/error.h"
#include "base/program.h"

namespace hearth {
namespace {

spdlog::level::level_enum level_of(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      break;
  }
  return spdlog::level::err;
}

// The text of an error, with the speaker's name at the end of its first line.
std::string with_speaker(std::string_view text) {
  const std::string speaker = environment_variable(kSpeakerVariable);
  std::string named(text);
  if (!speaker.empty() && text.starts_with("error: "))
    named.insert(std::min(named.find('\n'), named.size()), " (" + speaker + ")");
  return named;
}

}  // namespace

void log_message(LogLevel level, std::string_view text) {
  static spdlog::logger logger = [] {
    auto sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
    sink->set_pattern("%v");
    return spdlog::logger("stderr", std::move(sink));
  }();
  const std::string named = level == LogLevel::kError ? with_speaker(text) : std::string(text);
  logger.log(level_of(level), spdlog::string_view_t(named.data(), named.size()));
}

RankLog::RankLog(const Path& folder, int64_t rank) {
  make_folders(folder);
  const Path path = folder / fmt::format("rank-{:05}.log", rank);
  try {
    auto sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(path.string());
    logger_ = std::make_shared<spdlog::logger>("rank", std::move(sink));
  } catch (const spdlog::spdlog_ex& e) {
    const int error_number = errno;
    throw system_error(fmt::format("cannot write {}", path.string()), error_number);
  }
  logger_->set_pattern(fmt::format("%Y-%m-%d %H:%M:%S.%e rank {} %l: %v", rank));
  logger_->set_level(spdlog::level::debug);
  logger_->flush_on(spdlog::level::debug);
}

void RankLog::write(LogLevel level, std::string_view text) {
  logger_->log(level_of(level), spdlog::string_view_t(text.data(), text.size()));
}

}  // namespace hearth
