// SPDX-License-Identifier: Apache-2.0
// `hearth logs`: the output of a run's newest job, or the log of one rank.
#include <chrono>
#include <thread>

#include "base/log.h"
#include "cluster/run_status.h"
#include "commands/commands.h"
#include "runfolder/names.h"

namespace hearth::commands {
namespace {

// The newest output of a job; an empty path without one.
Path newest_job_log(const Path& logs) {
  Path newest;
  std::filesystem::file_time_type newest_time;
  if (!folder_exists(logs)) return newest;
  for (const std::string& name : list_folder(logs)) {
    if (!name.starts_with("job-") || !name.ends_with(".log")) continue;
    std::error_code gone;
    const auto time = std::filesystem::last_write_time(logs / name, gone);
    if (gone || (!newest.empty() && time < newest_time)) continue;
    newest = logs / name;
    newest_time = time;
  }
  return newest;
}

Path log_of(const Path& run, int64_t rank) {
  const Path logs = run / runfolder::kLogsFolder;
  if (rank >= 0) {
    Path log = logs / fmt::format("rank-{:05}.log", rank);
    if (!path_exists(log))
      throw user_error(fmt::format("there is no {}", log.string()), "a rank writes it when it starts",
                       "give a rank of this run, or leave out --rank");
    return log;
  }
  if (Path log = newest_job_log(logs); !log.empty()) return log;
  if (path_exists(logs / "rank-00000.log")) return logs / "rank-00000.log";
  throw user_error(fmt::format("there are no logs in {}", logs.string()), "a job or a training writes them", {});
}

// Prints what follows `offset`, and returns the new end.
size_t print_from(const Path& log, size_t offset) {
  const std::string text = read_file(log);
  if (text.size() < offset) offset = 0;  // it was written anew
  fmt::print("{}", std::string_view(text).substr(offset));
  std::fflush(stdout);
  return text.size();
}

// The start of the last `lines` lines.
size_t tail_of(const std::string& text, int64_t lines) {
  size_t at = text.ends_with('\n') ? text.size() - 1 : text.size();
  for (int64_t i = 0; i < lines; ++i) {
    const size_t end = at == 0 ? std::string::npos : text.rfind('\n', at - 1);
    if (end == std::string::npos) return 0;
    at = end;
  }
  return lines == 0 ? text.size() : at + 1;
}

}  // namespace

int logs(CommandLine& line) {
  Path run;
  int64_t rank = -1, lines = 40;
  bool follow = false;
  line.positional("RUN", &run, "a run folder, or its run file");
  line.option("--rank N", &rank, within(-1, 1 << 20), "the log of this rank; -1: the output of the newest job");
  line.option("--lines N", &lines, within(0, 1e9), "the last lines to begin with");
  line.flag("--follow", &follow, "go on printing what is written, until Ctrl-C or the run's end");
  if (!line.parse()) return 0;
  const Path folder = cluster::run_folder_of(run);
  Path log = log_of(folder, rank);
  log_info("{}", log.string());
  size_t end = print_from(log, tail_of(read_file(log), lines));
  for (int64_t quiet = 0; follow;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    const size_t before = std::exchange(end, print_from(log, end));
    quiet = end == before ? quiet + 1 : 0;
    if (quiet < 10 || quiet % 10 != 0) continue;
    if (const Path next = log_of(folder, rank); next != log) {  // another job goes on
      log = next;
      log_info("{}", log.string());
      end = print_from(log, 0);
      continue;
    }
    const cluster::RunState state = cluster::run_status(folder).state;
    if (state == cluster::RunState::kDone || state == cluster::RunState::kStopped) break;
  }
  return 0;
}

}  // namespace hearth::commands
