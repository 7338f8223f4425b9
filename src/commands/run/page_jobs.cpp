#include "commands/run/page_jobs.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/quantity.h"
#include "cluster/goodput.h"
#include "cluster/starts.h"

namespace hearth::commands {
namespace {

using cluster::StartEvent;

std::string after_that(const std::string& next) {
  if (next == "again") return ", and the ranks start again";
  if (next == "requeue") return ", and the job goes back to the queue";
  if (next == "stop") return ", and the run stops";
  return "";
}

std::string text_of(const StartEvent& e) {
  if (e.name == "submit")
    return fmt::format("submitted to {}: {}, {}", e.cluster, counted(e.nodes, "node"), counted(e.ranks, "rank"));
  if (e.name == "start")
    return fmt::format("{} on {}",
                       e.step > 0 ? fmt::format("the ranks start after step {}", e.step) : "the ranks start", e.host);
  if (e.name == "end")
    return fmt::format("the ranks ended (exit code {}), with a checkpoint of step {}{}", e.code, e.step,
                       after_that(e.next));
  if (e.name == "queued") return fmt::format("waits to go on for job {}", e.after);
  return "asked to stop";
}

// The reason of the newest end in the seconds (after_s, until_s].
std::string reason_between(const std::vector<StartEvent>& events, double after_s, double until_s) {
  std::string reason;
  for (const StartEvent& e : events) {
    const double time_s = cluster::seconds_of_time(e.time);
    if (e.name == "end" && time_s > after_s && time_s <= until_s) reason = e.why;
  }
  return reason;
}

}  // namespace

void add_jobs(report::PageRun& run, const Path& folder) {
  std::vector<StartEvent> events;
  try {
    events = cluster::read_starts(folder);
  } catch (const Error& e) {
    run.notes.push_back(e.message());
    return;
  }
  for (const StartEvent& e : events) run.jobs.push_back({cluster::seconds_of_time(e.time), e.job, text_of(e), e.why});
  double before_s = 0;
  for (metrics::Event& event : run.history.events) {
    if (event.name != "resume" || event.time <= 0) continue;
    event.reason = reason_between(events, before_s, event.time);
    before_s = event.time;
  }
}

}  // namespace hearth::commands
