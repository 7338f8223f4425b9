// SPDX-License-Identifier: Apache-2.0
// `hearth config check`: finds the errors of a run file and of the weights that it begins with, and prints the values
// that follow from its keys. `hearth train` also reads the data.
#include "base/error_list.h"
#include "commands/commands.h"
#include "commands/run_file.h"
#include "config/derived.h"
#include "config/load.h"
#include "convert/initial_load.h"
#include "plan/parameters.h"
#include "plan/run_shape.h"

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

// Throws user_error where the ranks cannot share the model or its sequences. Nothing while the vocabulary is not known.
void check_parts(const config::RunConfig& config) {
  const int64_t vocab_size = vocab_size_of_data(config);
  if (vocab_size > 0 || config.model.vocab_size > 0) plan::run_shape(config, {.vocab_size = vocab_size});
}

// The weights that the run begins with, and what is not taken over; errors where they do not fit the model. Nothing for
// a run that has checkpoints, which goes on from those, and for one that begins with random weights.
std::vector<TextRow> first_weights(const config::RunConfig& config, ErrorList& errors) {
  if (config.checkpoint.initial_load_path.empty() || path_exists(config.checkpoint_folder())) return {};
  std::vector<TextRow> rows;
  errors.attempt_about("checkpoint.initial_load_path", [&] {
    const convert::Source source = convert::open_for_run(normal_path(config.initial_load_path()), config.model);
    rows.push_back({"first weights", source.reader.folder().string()});
    const auto add = [&](const std::vector<std::string>& notes) {
      for (const std::string& note : notes) rows.push_back({"", note});
    };
    add(source.notes);
    // A branch from a run of Hearth compares all keys when it starts.
    if (config.checkpoint.initial_load_model_only || !source.reader.has_manifest())
      errors.attempt([&] { add(convert::check_same_model(source, config)); });
    const int64_t vocab_size = vocab_size_of_data(config);
    if (vocab_size == 0 && config.model.vocab_size <= 0) return;
    errors.attempt([&] {
      const plan::ParameterPlan plan = plan::parameter_plan(plan::model_shape(config.model, vocab_size));
      add(convert::plan_initial_load(config.checkpoint, plan, source.reader).notes);
    });
  });
  return rows;
}

}  // namespace

int config_check(CommandLine& line) {
  Path toml;
  std::vector<std::string> sets;
  line.positional("RUN.toml", &toml, "the run file");
  line.option("--set SECTION.KEY=VALUE", &sets, kSetHelp);
  if (!line.parse()) return 0;
  const config::LoadResult loaded = config::read_and_check(toml, sets);
  config::throw_all(loaded, {});
  const config::RunConfig& config = loaded.config;
  ErrorList errors;
  std::vector<TextRow> weights;
  if (errors.attempt([&] { check_parts(config); })) weights = first_weights(config, errors);
  config::throw_all(loaded, errors.list());
  fmt::print("{} has no errors\n", toml.string());
  std::vector<TextRow> rows = {
      {"run folder", config.run_folder().lexically_normal().string()},
      {"data", data_text(config)},
      {"step",
       fmt::format("{} tokens = {} x {} x {} x {}", config::tokens_per_step(config),
                   counted(config.parallelism.ranks(), "rank"),
                   counted(config::accumulation_steps(config), "micro-batch"),
                   counted(config.training.local_batch_size, "sequence"), counted(config.training.seq_len, "token"))},
      {"length", length_text(config)},
  };
  rows.insert(rows.end(), weights.begin(), weights.end());
  if (const int64_t window = config.model.sliding_window; window > 0)
    rows.push_back({"sliding window", fmt::format("{} in {} of {} layers", counted(window, "token"),
                                                  config::count_windowed_layers(config.model), config.model.n_layers)});
  fmt::print("{}", format_rows(rows));
  return 0;
}

}  // namespace hearth::commands
