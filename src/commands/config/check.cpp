// `hearth config check`: finds the errors that the run file alone shows, and prints the values that follow from its
// keys. `hearth train` also checks the files that it names.
#include <fmt/format.h>

#include "base/quantity.h"
#include "base/text.h"
#include "commands/commands.h"
#include "commands/run_file.h"
#include "config/derived.h"
#include "config/load.h"

namespace hearth::commands {
namespace {

std::string length_text(const config::RunConfig& config) {
  const config::Training& t = config.training;
  if (t.epochs > 0) return fmt::format("{} epochs; how many steps that is depends on the data", t.epochs);
  const int64_t steps = config::total_steps(config, 0);
  return fmt::format("{}, {} tokens", counted(steps, "step"),
                     format_count(static_cast<double>(steps) * static_cast<double>(config::tokens_per_step(config))));
}

std::string data_text(const config::RunConfig& config) {
  std::vector<std::string> paths;
  for (const config::DataSource& source : config.sources())
    paths.push_back(normal_path(config.resolve(source.path)).string());
  return join(paths);
}

}  // namespace

int config_check(CommandLine& line) {
  Path toml;
  std::vector<std::string> sets;
  line.positional("RUN.toml", &toml, "the run file");
  line.option("--set", "SECTION.KEY=VALUE", &sets, kSetHelp);
  if (!line.parse()) return 0;
  const config::RunConfig config = config::load(toml, sets);
  fmt::print("{} has no errors\n", toml.string());
  std::vector<Row> rows = {
      {"run folder", config.run_folder().lexically_normal().string()},
      {"data", data_text(config)},
      {"step",
       fmt::format("{} tokens = {} x {} x {} x {}", config::tokens_per_step(config),
                   counted(config.parallelism.ranks(), "rank"),
                   counted(config::accumulation_steps(config), "micro-batch"),
                   counted(config.training.local_batch_size, "sequence"), counted(config.training.seq_len, "token"))},
      {"length", length_text(config)},
  };
  if (const int64_t window = config.model.sliding_window; window > 0)
    rows.push_back({"sliding window", fmt::format("{}: longer sequences compute something else in this model than in "
                                                  "Hearth, and are refused",
                                                  counted(window, "token"))});
  fmt::print("{}", format_rows(rows));
  return 0;
}

}  // namespace hearth::commands
