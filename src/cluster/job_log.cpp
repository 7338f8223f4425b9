// SPDX-License-Identifier: Apache-2.0
#include "cluster/job_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/text.h"
#include "runfolder/names.h"

namespace hearth::cluster {
namespace {

struct LogError {
  std::string speaker, text;  // "start 2.1", "WHAT: WHY"
  bool is_newest = true;      // no line of the script follows
};

// Takes the speaker off the end of an error's first line.
LogError error_of_line(std::string text) {
  const size_t at = text.rfind(" (");
  if (at == std::string::npos || !text.ends_with(')')) return {.speaker = {}, .text = std::move(text)};
  const std::string speaker = text.substr(at + 2, text.size() - at - 3);
  const bool is_start =
      speaker.starts_with("start ") && speaker.find_first_not_of("0123456789.", 6) == std::string::npos;
  if (!is_start && speaker != kScriptSpeaker) return {.speaker = {}, .text = std::move(text)};
  return {.speaker = speaker, .text = text.substr(0, at)};
}

std::vector<LogError> errors_of(std::string_view log) {
  constexpr std::string_view kScript = "hearth: job ", kError = "error: ", kWhy = "  why: ";
  std::vector<LogError> errors;
  bool is_open = false;  // the line before was an error's first
  for (const std::string& line : split_lines(std::string(log))) {
    if (line.starts_with(kScript))
      for (LogError& error : errors) error.is_newest = false;
    if (is_open && line.starts_with(kWhy)) errors.back().text += ": " + line.substr(kWhy.size());
    is_open = line.starts_with(kError);
    if (is_open) errors.push_back(error_of_line(line.substr(kError.size())));
  }
  return errors;
}

}  // namespace

std::string read_job_log(const Path& run, const std::string& job) {
  constexpr size_t kMostBytes = size_t{1} << 20;
  const Path log = run / runfolder::kLogsFolder / fmt::format("job-{}.log", job);
  if (!path_exists(log)) return {};
  const std::string text = read_file(log);
  return text.substr(text.size() - std::min(text.size(), kMostBytes));
}

std::string error_of_start(std::string_view log, std::string_view start) {
  const std::string speaker = start.empty() ? "" : fmt::format("start {}", start);
  for (const LogError& error : errors_of(log))
    if (error.speaker == speaker && (error.is_newest || !start.empty())) return error.text;
  return {};
}

std::string newest_error(std::string_view log) {
  for (const LogError& error : errors_of(log))
    if (error.is_newest) return error.text;
  return {};
}

std::string fault_of_node(std::string_view log, std::string_view node) {
  const std::string begin = fmt::format("hearth: node {}: ", node);
  std::string fault;
  for (const std::string& line : split_lines(std::string(log)))
    if (line.starts_with(begin)) fault = line.substr(begin.size());
  return fault;
}

}  // namespace hearth::cluster
