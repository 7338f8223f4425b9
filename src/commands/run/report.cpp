// SPDX-License-Identifier: Apache-2.0
// `hearth report`: pictures and pages of trainings, and their metrics for other programs.
#include <chrono>
#include <exception>
#include <set>

#include "cluster/goodput.h"
#include "cluster/starts.h"
#include "commands/commands.h"
#include "metrics/jsonl.h"
#include "metrics/tensorboard.h"
#include "metrics/throughput.h"
#include "report/loss_curve.h"
#include "report/page_server.h"
#include "report/run_facts.h"
#include "report/run_page.h"
#include "runfolder/names.h"

namespace hearth::commands {
namespace {

struct GivenRun {
  std::string name;  // its folder's
  Path metrics_file;
};

// `may_begin`: a run folder may have no metrics yet.
GivenRun given_run(const Path& run, bool may_begin) {
  const Path file = may_begin && folder_exists(run) ? run / runfolder::kMetricsFile : report::metrics_file_of(run);
  const Path folder = std::filesystem::absolute(file).parent_path().lexically_normal();
  return {folder.filename().string(), file};
}

// Seconds since 1970.
double last_change(const Path& file) {
  const auto time = std::chrono::file_clock::to_sys(std::filesystem::last_write_time(file));
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}

// Every step of `run` as a point, in a folder of its name.
void write_tensorboard(const GivenRun& run, const Path& folder) {
  std::vector<metrics::StepRecord> records = metrics::read_metrics(run.metrics_file);
  if (records.empty())
    throw user_error(fmt::format("{} has no steps", run.metrics_file.string()), "TensorBoard would show nothing",
                     "wait for the training's first step");
  if (metrics::has_event_files(folder))
    throw user_error(fmt::format("{} has event files already", folder.string()),
                     "TensorBoard would show their points and the new ones as one run",
                     "name another folder, or remove that one");
  metrics::estimate_times(records, last_change(run.metrics_file));
  const Path run_file = run.metrics_file.parent_path() / runfolder::kRunFile;
  metrics::Tensorboard({.folder = folder,
                        .log_freq = 1,
                        .time = records.front().time,
                        .configuration = path_exists(run_file) ? read_file(run_file) : ""},
                       records)
      .sync();
  fmt::print("wrote {} to {}\n", counted(std::ssize(records), "step"), folder.string());
}

std::string picture_of(const std::vector<GivenRun>& runs, const std::string& title) {
  std::vector<report::Curve> curves;
  for (const GivenRun& run : runs) curves.push_back({run.name, metrics::read_metrics(run.metrics_file)});
  if (curves.size() == 1) curves.front().name.clear();
  return report::loss_curves_svg(curves, title);
}

std::string after_that(const std::string& next) {
  if (next == "again") return ", and the ranks start again";
  if (next == "requeue") return ", and the job goes back to the queue";
  if (next == "stop") return ", and the run stops";
  return "";
}

std::string text_of(const cluster::StartEvent& e) {
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
std::string reason_between(const std::vector<cluster::StartEvent>& events, double after_s, double until_s) {
  std::string reason;
  for (const cluster::StartEvent& e : events) {
    const double time_s = cluster::seconds_of_time(e.time);
    if (e.name == "end" && time_s > after_s && time_s <= until_s) reason = e.why;
  }
  return reason;
}

// The jobs of a run on its page, from RUN/starts.jsonl, if it is there. A resume of `run.history` gets the reason for
// which the ranks before it ended.
void add_jobs(report::PageRun& run, const Path& folder) {
  std::vector<cluster::StartEvent> events;
  try {
    events = cluster::read_starts(folder);
  } catch (const Error& e) {
    run.notes.push_back(e.message());
    return;
  }
  for (const cluster::StartEvent& e : events)
    run.jobs.push_back({cluster::seconds_of_time(e.time), e.job, text_of(e), e.why});
  double before_s = 0;
  for (metrics::Event& event : run.history.events) {
    if (event.name != "resume" || event.time <= 0) continue;
    event.reason = reason_between(events, before_s, event.time);
    before_s = event.time;
  }
}

report::PageRun page_run(const GivenRun& given) {
  report::PageRun run = report::page_run(given.name, given.metrics_file);
  add_jobs(run, given.metrics_file.parent_path());
  return run;
}

report::RunPage empty_page(const std::string& title) {
  return {.title = title, .runs = {}, .defaults = report::configuration_texts({})};
}

std::string page_of(const std::vector<GivenRun>& runs, const std::string& title) {
  report::RunPage page = empty_page(title);
  for (const GivenRun& run : runs) page.runs.push_back(page_run(run));
  return report::run_page(page);
}

// The pages of runs that go on. Reading a long run takes a second, so that it is not read again for ten times as long.
class LivePages {
 public:
  LivePages(std::vector<GivenRun> runs, std::string title) : runs_(std::move(runs)), title_(std::move(title)) {}

  report::PageAnswer answer(std::string_view path) {
    if (path == "/version") return {.type = "text/plain", .body = version()};
    if (path == "/data") return {.type = "application/json", .body = report::run_page_data(page())};
    if (path == "/" || path == "/index.html") return {.body = report::live_run_page(page())};
    return {.status = 404, .type = "text/plain", .body = "there is only /\n"};
  }

 private:
  // A file that cannot be read now, such as one that is being moved away, does not end the server.
  static report::PageRun page_run_as_it_is(const GivenRun& given) {
    try {
      return page_run(given);
    } catch (const std::exception& e) {
      return {.name = given.name, .notes = {fmt::format("it cannot be read now: {}", e.what())}};
    }
  }

  // Sizes and times of the files that change during a training.
  std::string version() {
    const double now_s = metrics::monotonic_seconds();
    if (now_s < next_look_s_) return version_;
    version_.clear();
    for (const GivenRun& run : runs_) {
      for (const char* name : {runfolder::kMetricsFile, runfolder::kScoresFile, runfolder::kRunFile,
                               runfolder::kPlanFile, runfolder::kStartsFile}) {
        const Path file = run.metrics_file.parent_path() / name;
        std::error_code gone;
        const auto size = std::filesystem::file_size(file, gone);
        if (gone) continue;
        const auto time = std::filesystem::last_write_time(file, gone).time_since_epoch().count();
        version_ += fmt::format("{}-{} ", size, time);
      }
    }
    return version_;
  }

  const report::RunPage& page() {
    if (const std::string newest = version(); page_.runs.empty() || page_.version != newest) {
      const double start_s = metrics::monotonic_seconds();
      page_ = empty_page(title_);
      for (const GivenRun& run : runs_) page_.runs.push_back(page_run_as_it_is(run));
      page_.version = newest;
      const double end_s = metrics::monotonic_seconds();
      next_look_s_ = end_s + 10 * (end_s - start_s);
    }
    return page_;
  }

  std::vector<GivenRun> runs_;
  std::string title_, version_;
  report::RunPage page_;
  double next_look_s_ = 0;
};

void serve(const std::vector<GivenRun>& runs, const std::string& title, int64_t port) {
  LivePages pages(runs, title);
  report::PageServer server(port);
  fmt::print("http://127.0.0.1:{}/ shows {} (Ctrl-C ends)\n", server.port(), title);
  std::fflush(stdout);
  server.serve([&pages](std::string_view path) { return pages.answer(path); });
}

// Runs of one name, in different folders, get the names "NAME", "NAME-2", ...
void distinguish(std::vector<GivenRun>& runs) {
  std::set<std::string> names;
  for (GivenRun& run : runs) {
    const std::string name = run.name;
    for (int number = 2; !names.insert(run.name).second; ++number) run.name = fmt::format("{}-{}", name, number);
  }
}

std::string title_of(const std::vector<GivenRun>& runs) {
  std::vector<std::string> names;
  for (const GivenRun& run : runs) names.push_back(run.name);
  return join(names);
}

}  // namespace

int report(CommandLine& line) {
  std::vector<Path> paths;
  Path out, tensorboard;
  std::string title;
  bool serves = false;
  int64_t port = 8017;
  line.positional("RUN", &paths, "run folders, or their metrics.jsonl; several are drawn over each other");
  line.option("--out FILE", &out,
              "what to write, replacing a file of that name: FILE.html, a page with curves, events, configuration and "
              "origin; or FILE.svg, a picture of the losses");
  line.option("--title TEXT", &title, "what stands above it");
  line.option("--tensorboard DIR", &tensorboard,
              "write every step of RUN to files for TensorBoard, in a new folder DIR/NAME");
  line.flag("--serve", &serves,
            "show the page at an address of this host, until Ctrl-C; it follows the runs, which may begin later");
  line.option("--port N", &port, within(0, 65535), "of that address; 0 is a free one");
  if (!line.parse()) return 0;
  if (serves && (!out.empty() || !tensorboard.empty()))
    throw user_error("--serve writes nothing", "--out or --tensorboard is given, too", "give one of them at a time");
  if (!serves && line.given("--port")) throw user_error("--port is for --serve", {}, "add --serve, or leave it out");
  if (!serves && out.empty() && tensorboard.empty())
    throw user_error("report: nothing is to be written", "neither --out nor --tensorboard is given",
                     "give --out report.html for a page, or --serve to look at one");
  const bool is_page = out.extension() == ".html";
  if (!out.empty() && !is_page && out.extension() != ".svg")
    throw user_error(fmt::format("--out {} is neither a page nor a picture", out.string()),
                     "the name's end says what is written", "end it in .html or .svg");
  std::vector<GivenRun> runs;
  for (const Path& path : paths) runs.push_back(given_run(path, serves));
  distinguish(runs);
  if (title.empty()) title = serves || is_page ? title_of(runs) : "Loss";
  if (serves) {
    serve(runs, title, port);
    return 0;
  }
  if (!tensorboard.empty())
    for (const GivenRun& run : runs) write_tensorboard(run, tensorboard / run.name);
  if (out.empty()) return 0;
  write_file_atomic(out, is_page ? page_of(runs, title) : picture_of(runs, title));
  fmt::print("wrote {}\n", out.string());
  return 0;
}

}  // namespace hearth::commands
