// SPDX-License-Identifier: Apache-2.0
#include "cluster/starts.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/program.h"
#include "base/quantity.h"
#include "base/text.h"
#include "runfolder/names.h"

namespace hearth::cluster {
namespace {

using Json = nlohmann::ordered_json;

std::string event_line(const StartEvent& e) {
  Json line = {{"event", e.name}, {"time", e.time}, {"host", e.host}, {"job", e.job}};
  if (e.name == "submit") {
    line["cluster"] = e.cluster;
    line["nodes"] = e.nodes;
    line["ranks"] = e.ranks;
  }
  if (e.name == "start" || e.name == "end") line["step"] = e.step;
  if (e.requeues > 0) line["requeues"] = e.requeues;
  if (e.name == "end") {
    line["code"] = e.code;
    line["signal"] = e.signal;
    line["next"] = e.next;
    line["why"] = e.why;
  }
  if (e.name == "queued") line["after"] = e.after;
  return line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

// nullopt for a line that is not an event, such as half of one.
std::optional<StartEvent> event_of_line(const std::string& text) {
  const Json line = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!line.is_object()) return std::nullopt;
  const auto word = [&line](const char* name) {
    const auto it = line.find(name);
    return it != line.end() && it->is_string() ? it->get<std::string>() : std::string();
  };
  const auto number = [&line](const char* name) {
    const auto it = line.find(name);
    return it != line.end() && it->is_number_integer() ? it->get<int64_t>() : int64_t{0};
  };
  StartEvent e{.name = word("event"), .time = word("time"), .host = word("host"), .job = word("job")};
  constexpr std::array<std::string_view, 5> kNames = {"submit", "start", "end", "queued", "stop"};
  if (std::find(kNames.begin(), kNames.end(), e.name) == kNames.end()) return std::nullopt;
  e.cluster = word("cluster");
  e.nodes = number("nodes");
  e.ranks = number("ranks");
  e.step = number("step");
  e.requeues = number("requeues");
  e.code = number("code");
  e.signal = word("signal");
  e.next = word("next");
  e.why = word("why");
  e.after = word("after");
  return e;
}

// What is wrong with the nodes that the next start leaves out.
std::string off_text(const Ended& ended) {
  if (ended.signal == "preflight") return fmt::format("hearth preflight found {} off", join(ended.bad_nodes));
  if (!ended.fault.empty())
    return fmt::format("{} {} off ({})", join(ended.bad_nodes), ended.bad_nodes.size() == 1 ? "is" : "are",
                       ended.fault);
  return fmt::format("{} cannot start the program, or {} the run's files or the build of most", join(ended.bad_nodes),
                     ended.bad_nodes.size() == 1 ? "lacks" : "lack");
}

// Seconds from a start to the next one, by the number of starts in a row that made no checkpoint.
int64_t seconds_between_starts(int64_t vain) {
  constexpr std::array<int64_t, 4> kSeconds = {0, 5, 15, 30};
  return kSeconds.at(static_cast<size_t>(std::clamp<int64_t>(vain - 1, 0, std::ssize(kSeconds) - 1)));
}

// The end of the launcher, for people: 128 + N is signal N.
std::string end_text(int64_t code) {
  if (code > 128 && code < 128 + 65) return fmt::format("a rank or its launcher was killed by signal {}", code - 128);
  if (code == static_cast<int>(ExitCode::kHardware)) return "a rank, its device or its connection failed (exit code 4)";
  if (code == static_cast<int>(ExitCode::kUser))
    return "the ranks ended with exit code 2 and without an error of Hearth";
  if (code == 0) return "the ranks ended without completing the training, as after the death of a node";
  return fmt::format("the ranks ended with exit code {}", code);
}

}  // namespace

Path starts_file(const Path& run) { return run / runfolder::kStartsFile; }
Path submit_lock(const Path& run) { return run / "submit.lock"; }

std::vector<StartEvent> read_starts(const Path& run) {
  std::vector<StartEvent> events;
  if (!path_exists(starts_file(run))) return events;
  for (const std::string& line : split_lines(read_file(starts_file(run))))
    if (auto event = event_of_line(line)) events.push_back(std::move(*event));
  return events;
}

void append_start(const Path& run, StartEvent event) {
  event.time = utc_now();
  if (event.host.empty()) event.host = host_name();
  const Path path = starts_file(run);
  const bool torn = path_exists(path) && [&path] {
    const std::string text = read_file(path);
    return !text.empty() && text.back() != '\n';
  }();
  File file = File::open_append(path);
  file.write((torn ? "\n" : "") + event_line(event));  // one write: other writers' lines stay whole
  file.sync();
  file.close();
}

std::string started_elsewhere(const std::vector<StartEvent>& events, const std::string& job, const std::string& host,
                              int64_t requeues) {
  for (auto e = events.rbegin(); e != events.rend(); ++e)
    if (e->name == "start") return e->job == job && (e->host != host || e->requeues > requeues) ? e->host : "";
  return {};
}

std::string newest_job(const std::vector<StartEvent>& events) {
  for (auto e = events.rbegin(); e != events.rend(); ++e)
    if (e->name == "submit" || e->name == "start" || e->name == "queued") return e->job;
  return {};
}

int64_t starts_without_progress(const std::vector<StartEvent>& events, int64_t step_now) {
  int64_t count = 0, later = step_now;
  for (auto e = events.rbegin(); e != events.rend(); ++e) {
    if (e->name == "end") later = e->step;
    if (e->name == "submit") break;  // a person started anew
    if (e->name != "start") continue;
    if (later > e->step) break;
    ++count;
    later = e->step;
  }
  return count;
}

std::string_view name_of(Next next) {
  constexpr std::array<std::string_view, 5> kNames = {"done", "again", "requeue", "leave", "stop"};
  return kNames[static_cast<size_t>(next)];
}

bool says_full_disk(std::string_view error, const std::vector<Path>& folders) {
  if (!error.ends_with("No space left on device") && !error.ends_with("Disk quota exceeded")) return false;
  return std::any_of(folders.begin(), folders.end(),
                     [error](const Path& folder) { return error.find(folder.string()) != std::string_view::npos; });
}

namespace {

// What only a person can mend; nullopt: nothing of that kind.
std::optional<RestartDecision> stop_for_a_person(const Ended& ended) {
  const auto is_code = [&ended](ExitCode code) { return ended.code == static_cast<int>(code); };
  const auto with_error = [&ended](std::string_view text, std::string_view without) {
    return fmt::format("{}{}", text, ended.error.empty() ? without : ": " + ended.error);
  };
  // A launcher has this code, too, where it does not find the program. Our refusal has an error in the log. Without
  // the run's files on any node, the disk that has them is away.
  const bool missing_files = ended.signal == "nodes";
  if (is_code(ExitCode::kUser) && !ended.error.empty() && !missing_files)
    return RestartDecision{Next::kStop, with_error("the training refused its input (exit code 2)", "")};
  if (is_code(ExitCode::kDamaged))
    return RestartDecision{Next::kStop,
                           with_error("data or a checkpoint are damaged (exit code 3)", ": the log says which")};
  if (is_code(ExitCode::kBug))
    return RestartDecision{Next::kStop, with_error("an error of Hearth itself (exit code 5)", ": keep the logs")};
  if (is_code(ExitCode::kHardware) && ended.disk_is_full)
    return RestartDecision{Next::kStop, fmt::format("the disk is full: {}", ended.error)};
  // Another start on this host would meet the same.
  if (ended.signal == "preflight" && ended.job.starts_with("local-"))
    return RestartDecision{
        Next::kStop, fmt::format("hearth preflight ended with exit code {}: the log names what is off", ended.code)};
  return std::nullopt;
}

// Why the ranks ended, where that is not for a person to mend.
std::string reason_of(const Ended& ended, bool leaves_out) {
  if (leaves_out) return off_text(ended);
  if (ended.signal == "limit") return "the time limit came";
  if (ended.signal == "preempt") return "the job was preempted";
  const std::string error = ended.error.empty() ? "" : ": " + ended.error;
  if (ended.signal == "preflight") return fmt::format("hearth preflight ended with exit code {}{}", ended.code, error);
  if (ended.signal == "nodes") return "no node finds the program and the run's files" + error;
  return end_text(ended.code) + error;
}

}  // namespace

RestartDecision decide(const std::vector<StartEvent>& events, const Ended& ended, int64_t max_restarts) {
  // The end of an older job must not ask for a third one. A stop counts if it came after this job's newest start.
  bool stop_asked = false;
  for (auto e = events.rbegin(); e != events.rend() && !(e->name == "start" && e->job == ended.job); ++e) {
    if (e->job != ended.job && (e->name == "start" || e->name == "submit" || e->name == "queued"))
      return {Next::kLeave, fmt::format("job {} goes on with the run", e->job)};
    stop_asked = stop_asked || e->name == "stop";
  }
  const bool leaves_out = !ended.bad_nodes.empty() && (ended.signal == "preflight" || ended.signal == "nodes");
  if (!leaves_out)
    if (const std::optional<RestartDecision> stop = stop_for_a_person(ended)) return *stop;
  if (ended.is_done) return {Next::kDone, "the training is complete"};
  if (stop_asked) return {Next::kStop, "`hearth stop` asked for it", 0, /*is_asked=*/true};
  if (ended.signal == "leave")
    return {Next::kLeave,
            "the job was asked to end: it was cancelled, preempted, or requeued after the failure of a node"};
  const int64_t vain = starts_without_progress(events, ended.step);
  const std::string why = reason_of(ended, leaves_out);
  if (vain > max_restarts)
    return {Next::kStop, fmt::format("{} starts in a row made no new checkpoint; the last: {}", vain, why)};
  if (leaves_out) return {Next::kRequeue, why + ": the next start leaves out what is off"};
  if (ended.signal == "limit" || ended.signal == "preempt") return {Next::kRequeue, why};
  if (ended.code == static_cast<int>(ExitCode::kAskedToLeave)) return {Next::kLeave, "a rank was asked to leave"};
  const auto lasted_s = static_cast<int64_t>(ended.lasted_s);
  return {Next::kAgain, why, std::max<int64_t>(0, seconds_between_starts(vain) - lasted_s)};
}

}  // namespace hearth::cluster
