// `hearth report`: pictures and pages of trainings, and their metrics for other programs.
#include <fmt/core.h>

#include <chrono>
#include <set>
#include <utility>

#include "base/error.h"
#include "commands/commands.h"
#include "metrics/jsonl.h"
#include "metrics/tensorboard.h"
#include "report/loss_curve.h"

namespace hearth::commands {
namespace {

struct GivenRun {
  std::string name;  // its folder's
  Path metrics_file;
  std::vector<metrics::Record> records;
};

GivenRun given_run(const Path& run) {
  const Path file = std::filesystem::is_directory(run) ? run / "metrics.jsonl" : run;
  if (!path_exists(file))
    throw user_error(fmt::format("{} does not exist", file.string()), "a training writes it at its first step",
                     "name a run folder, or its metrics.jsonl");
  const Path folder = std::filesystem::absolute(file).parent_path().lexically_normal();
  return {folder.filename().string(), file, metrics::read_metrics(file)};
}

// Seconds since 1970.
double last_change(const Path& file) {
  const auto time = std::chrono::file_clock::to_sys(std::filesystem::last_write_time(file));
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}

// Every step of `run` as a point, in a folder of its name.
void write_tensorboard(GivenRun run, const Path& folder) {
  if (run.records.empty())
    throw user_error(fmt::format("{} has no steps", run.metrics_file.string()), "TensorBoard would show nothing",
                     "wait for the training's first step");
  if (metrics::has_event_files(folder))
    throw user_error(fmt::format("{} has event files already", folder.string()),
                     "TensorBoard would show their points and the new ones as one run",
                     "name another folder, or remove that one");
  metrics::estimate_times(run.records, last_change(run.metrics_file));
  const Path run_file = run.metrics_file.parent_path() / "config.toml";
  metrics::Tensorboard({.folder = folder,
                        .log_freq = 1,
                        .time = run.records.front().time,
                        .configuration = path_exists(run_file) ? read_file(run_file) : ""},
                       run.records)
      .sync();
  fmt::print("wrote {} steps to {}\n", run.records.size(), folder.string());
}

void write_picture(std::vector<GivenRun> runs, const std::string& title, const Path& out) {
  std::vector<report::Curve> curves;
  for (GivenRun& run : runs) curves.push_back({run.name, std::move(run.records)});
  if (curves.size() == 1) curves.front().name.clear();
  write_file_atomic(out, report::loss_curves_svg(curves, title));
  fmt::print("wrote {}\n", out.string());
}

// Runs of one name, in different folders, get the names "NAME", "NAME-2", ...
void distinguish(std::vector<GivenRun>& runs) {
  std::set<std::string> names;
  for (GivenRun& run : runs) {
    const std::string name = run.name;
    for (int number = 2; !names.insert(run.name).second; ++number) run.name = fmt::format("{}-{}", name, number);
  }
}

}  // namespace

int report(CommandLine& line) {
  std::vector<Path> paths;
  Path out, tensorboard;
  std::string title = "Loss";
  line.positional("RUN", &paths, "run folders, or their metrics.jsonl; several are drawn into one picture");
  line.option("--out", "FILE.svg", &out, "the picture to write; a file of that name is replaced");
  line.option("--title", "TEXT", &title, "what stands above it");
  line.option("--tensorboard", "DIR", &tensorboard,
              "write every step of RUN to files for TensorBoard, in a new folder DIR/NAME");
  if (!line.parse()) return 0;
  if (out.empty() && tensorboard.empty())
    throw user_error("report: nothing is to be written", "neither --out nor --tensorboard is given",
                     "give --out loss.svg for a picture");
  std::vector<GivenRun> runs;
  for (const Path& path : paths) runs.push_back(given_run(path));
  distinguish(runs);
  if (!tensorboard.empty())
    for (const GivenRun& run : runs) write_tensorboard(run, tensorboard / run.name);
  if (!out.empty()) write_picture(std::move(runs), title, out);
  return 0;
}

}  // namespace hearth::commands
