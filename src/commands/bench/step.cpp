// SPDX-License-Identifier: Apache-2.0
// The options of `hearth bench step` and `hearth bench ops`, which check their shape.
#include <algorithm>

#include "commands/run_file.h"
#include "commands/torch_options.h"
#include "config/check.h"
#include "config/load.h"
#include "launch/launched_rank.h"

namespace hearth::commands {
namespace {

// The shape without a run file: 56 M parameters, as in bench/results/. Its feed-forward width of 1408 follows from dim.
// A given flavor replaces the model's keys.
struct Default {
  std::string_view name;
  int64_t value;
  std::string_view unless;  // not used if this key is given
};
constexpr Default kDefaults[] = {
    {"model.dim", 512, {}},
    {"model.n_layers", 8, {}},
    {"model.n_heads", 8, {}},
    {"model.n_kv_heads", 4, "model.n_heads"},
    {"model.vocab_size", 32000, "data.path"},
    {"training.seq_len", 1024, {}},
    {"training.local_batch_size", 4, {}},
};

// An option of `bench step` for a key: --n-layers for model.n_layers.
struct ShapeOption {
  const config::Field* field;
  std::string value;
};

constexpr const char* kShapeKeys[] = {"model.flavor",     "model.dim",        "model.n_layers",
                                      "model.n_heads",    "model.n_kv_heads", "model.hidden_dim",
                                      "model.vocab_size", "training.seq_len", "training.local_batch_size",
                                      "training.threads", "training.device"};
constexpr const char* kStepKeys[] = {"training.global_batch_size", "training.dtype", "training.mixed_precision_param",
                                     "numerics.fp8"};

// "--n-layers N"
std::string spec_of(const config::Field& field) {
  std::string name(field.key);
  std::replace(name.begin(), name.end(), '_', '-');
  return fmt::format("--{} {}", name,
                     field.type() == "bool"     ? "true|false"
                     : field.type() == "string" ? "NAME"
                     : field.type() == "number" ? "X"
                                                : "N");
}

config::Value default_of(const config::Field& field) {
  for (const Default& row : kDefaults)
    if (row.name == field.name()) return row.value;
  return field.default_value();
}

void fill_defaults(config::LoadResult& loaded) {
  const auto given = [&](std::string_view name) { return !name.empty() && loaded.origin(name).given(); };
  for (const Default& row : kDefaults) {
    const bool by_flavor = loaded.origin(row.name).kind == config::Origin::Kind::kFlavor;
    if (by_flavor || given(row.name) || given(row.unless)) continue;
    *std::get<int64_t*>(config::find_field(row.name)->pointer(loaded.config)) = row.value;
  }
}

// The options of both commands; `is_step` adds those that only `bench step` has.
std::optional<config::BenchStepOptions> bench_options(CommandLine& line, bool is_step) {
  config::BenchStepOptions options;
  Path run_toml;
  std::vector<std::string> sets;
  std::vector<ShapeOption> shape;
  for (const char* key : kShapeKeys) shape.push_back({config::find_field(key), {}});
  for (const char* key : kStepKeys)
    if (is_step) shape.push_back({config::find_field(key), {}});
  line.positional("RUN.toml", &run_toml, "a run file whose shape is timed; without one, the defaults below").optional();
  for (ShapeOption& option : shape) {
    const config::Field& field = *option.field;
    const config::Value value = default_of(field);
    std::string help(field.help);
    const std::string shown =
        std::holds_alternative<std::string>(value) ? std::get<std::string>(value) : config::to_toml_value(value);
    if (!shown.empty()) help += fmt::format(" (default: {})", shown);
    line.option(spec_of(field), &option.value, help);
  }
  line.option("--set SECTION.KEY=VALUE", &sets, kSetHelp);
  line.option("--steps N", &options.steps, at_least(1),
              is_step ? "steps that are timed" : "calls of each kernel that are timed");
  line.option("--warmup N", &options.warmup, at_least(0),
              is_step ? "steps before, which are not" : "calls before, which are not");
  line.flag("--json", &options.json, "print one JSON object");
  if (is_step)
    line.flag("--turns", &options.turns,
              "wait for a line on stdin before each step and print its seconds after it, to run in alternation with "
              "other programs");
  if (!line.parse()) return std::nullopt;
  for (const ShapeOption& option : shape)
    if (!option.value.empty()) sets.push_back(fmt::format("{}={}", option.field->name(), option.value));
  // As in a training, a degree that is not given follows from the ranks that a launcher started.
  const auto launched = is_step ? launch::launched_rank_in_environment() : std::nullopt;
  config::LoadResult loaded = config::read_run(run_toml, sets, launched && launched->size > 1 ? launched->size : 0);
  if (run_toml.empty()) fill_defaults(loaded);
  config::check(loaded, config::Purpose::kBench);
  for (config::Problem& problem : loaded.problems)
    if (problem.where == "--set") problem.where = "command line";  // --dim and the like are passed as --set, too
  config::throw_problems(run_toml.empty() ? "the command line" : run_toml.string(), loaded.problems);
  options.config = loaded.config;
  if (options.config.model.vocab_size == 0 && options.config.sources().empty())  // the run file names no data yet
    options.config.model.vocab_size = std::get<int64_t>(default_of(*config::find_field("model.vocab_size")));
  return options;
}

}  // namespace

std::optional<config::BenchStepOptions> bench_step_options(CommandLine& line) { return bench_options(line, true); }
std::optional<config::BenchStepOptions> bench_ops_options(CommandLine& line) { return bench_options(line, false); }

}  // namespace hearth::commands
