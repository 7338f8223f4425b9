#include <fmt/core.h>

#include "base/error.h"
#include "commands/commands.h"
#include "metrics/jsonl.h"
#include "report/loss_curve.h"

namespace hearth::commands {
namespace {

report::Curve curve_of(const Path& run) {
  const Path file = std::filesystem::is_directory(run) ? run / "metrics.jsonl" : run;
  if (!path_exists(file))
    throw user_error(fmt::format("{} does not exist", file.string()), "a training writes it at its first step",
                     "name a run folder, or its metrics.jsonl");
  const Path folder = std::filesystem::absolute(file).parent_path().lexically_normal();
  return {folder.filename().string(), metrics::read_metrics(file)};
}

}  // namespace

int report(CommandLine& line) {
  std::vector<Path> runs;
  Path out;
  std::string title = "Loss";
  line.positional("RUN", &runs, "run folders, or their metrics.jsonl; several are drawn into one picture");
  line.option("--out", "FILE.svg", &out, "the picture to write; a file of that name is replaced").required();
  line.option("--title", "TEXT", &title, "what stands above it");
  if (!line.parse()) return 0;
  std::vector<report::Curve> curves;
  for (const Path& run : runs) curves.push_back(curve_of(run));
  if (curves.size() == 1) curves.front().name.clear();
  write_file_atomic(out, report::loss_curves_svg(curves, title));
  fmt::print("wrote {}\n", out.string());
  return 0;
}

}  // namespace hearth::commands
