// SPDX-License-Identifier: Apache-2.0
#include "runfolder/lease_holder.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <map>

#include "base/error.h"
#include "base/program.h"
#include "base/text.h"

namespace hearth::runfolder {
namespace {

int64_t number_of(const std::string& text) {
  int64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

}  // namespace

std::string LeaseHolder::place() const {
  return fmt::format("process {} on {}{}", process, host, job.empty() ? "" : ", job " + job);
}

bool LeaseHolder::runs_here() const {
  if (ended || host != host_name() || process <= 0) return false;
  if (process == ::getpid()) return true;
  const Path words = fmt::format("/proc/{}/cmdline", process);
  try {
    return path_exists(words) && read_file(words).find("hearth-train") != std::string::npos;
  } catch (const Error&) {
    return false;  // it ended meanwhile
  }
}

std::optional<LeaseHolder> read_lease(const Path& run) {
  // An error other than a missing file is one of read_file.
  std::error_code error;
  if (std::filesystem::status(run / kLeaseFile, error).type() == std::filesystem::file_type::not_found)
    return std::nullopt;
  std::map<std::string, std::string> lines;
  for (const std::string& line : split_lines(read_file(run / kLeaseFile)))
    if (const size_t equals = line.find(" = "); equals != std::string::npos)
      lines[line.substr(0, equals)] = line.substr(equals + 3);
  if (!lines.contains("start") || !lines.contains("id")) return std::nullopt;
  LeaseHolder holder;
  holder.start = number_of(lines["start"]);
  holder.process = number_of(lines["process"]);
  holder.requeues = number_of(lines["requeues"]);
  holder.beat = number_of(lines["beat"]);
  holder.id = lines["id"];
  holder.host = lines["host"];
  holder.job = lines["job"];
  holder.time = lines["time"];
  holder.submitted = lines["submitted"] == "yes";
  holder.ended = lines["beat"].starts_with("ended");
  return holder;
}

double seconds_since_beat(const Path& run) {
  std::error_code gone;
  const auto written = std::filesystem::last_write_time(run / kLeaseFile, gone);
  if (gone) return 0;
  const auto now = std::filesystem::file_time_type::clock::now();
  return std::max(0.0, std::chrono::duration<double>(now - written).count());
}

}  // namespace hearth::runfolder
