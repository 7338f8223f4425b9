// `hearth bench step`: checks the shape, then becomes `hearth-train`.
#include <fmt/format.h>

#include <algorithm>

#include "commands/commands.h"
#include "commands/hearth_train.h"
#include "commands/run_file.h"
#include "commands/train_options.h"
#include "config/check.h"
#include "config/load.h"

namespace hearth::commands {
namespace {

// An option of `bench step` for a key: --n-layers for model.n_layers.
struct ShapeOption {
  const config::Field* field;
  std::string value;
};

std::vector<ShapeOption> shape_options() {
  std::vector<ShapeOption> options;
  for (const char* key : {"model.flavor", "model.dim", "model.n_layers", "model.n_heads", "model.n_kv_heads",
                          "model.hidden_dim", "model.vocab_size", "training.seq_len", "training.local_batch_size",
                          "training.global_batch_size", "training.dtype", "training.threads"})
    options.push_back({config::find_field(key), {}});
  return options;
}

std::string option_name(const config::Field& field) {
  std::string name(field.key);
  std::replace(name.begin(), name.end(), '_', '-');
  return "--" + name;
}

std::string value_name(const config::Field& field) {
  return field.type() == "string" ? "NAME" : field.type() == "number" ? "X" : "N";
}

// What a step of random tokens runs with when neither a dataset nor an option says how many ids there are.
constexpr int64_t kBenchVocabSize = 32000;

}  // namespace

std::optional<config::BenchStepOptions> bench_step_options(CommandLine& line) {
  config::BenchStepOptions options;
  Path run_toml;
  std::vector<std::string> sets;
  std::vector<ShapeOption> shape = shape_options();
  line.positional("RUN.toml", &run_toml, "a run file whose step is timed; without one, the defaults below").optional();
  for (ShapeOption& option : shape) {
    const config::Field& field = *option.field;
    const config::Value value =
        field.name() == "model.vocab_size" ? config::Value(kBenchVocabSize) : field.default_value();
    std::string help(field.help);
    const std::string shown =
        std::holds_alternative<std::string>(value) ? std::get<std::string>(value) : config::to_toml_value(value);
    if (!shown.empty()) help += fmt::format(" (default: {})", shown);
    line.option(option_name(field), value_name(field), &option.value, help);
  }
  line.option("--set", "SECTION.KEY=VALUE", &sets, kSetHelp);
  line.option("--steps", "N", &options.steps, "steps that are timed").range(1);
  line.option("--warmup", "N", &options.warmup, "steps before, which are not").range(0);
  line.flag("--json", &options.json, "print one JSON object");
  if (!line.parse()) return std::nullopt;
  for (const ShapeOption& option : shape) {
    if (!option.value.empty()) sets.push_back(fmt::format("{}={}", option.field->name(), option.value));
  }
  config::LoadResult loaded = config::read_run(run_toml, sets);
  config::check(loaded, config::Purpose::kBench);
  for (config::Problem& problem : loaded.problems) {
    if (problem.where == "--set") problem.where = "command line";  // --dim and the like come as --set, too
  }
  config::throw_problems(run_toml.empty() ? "the command line" : run_toml.string(), loaded.problems);
  options.config = loaded.config;
  if (options.config.model.vocab_size == 0 && options.config.data.path.empty())
    options.config.model.vocab_size = kBenchVocabSize;
  return options;
}

int bench_step(CommandLine& line) {
  if (!bench_step_options(line)) return 0;
  become_hearth_train(line, "bench step");
}

}  // namespace hearth::commands
