// SPDX-License-Identifier: Apache-2.0
// `hearth config show`: the resolved run file with every key and the origin of its value. The output is again a run
// file.
#include <algorithm>

#include "commands/commands.h"
#include "commands/run_file.h"
#include "config/families.h"
#include "config/load.h"
#include "plan/parameters.h"

namespace hearth::commands {
namespace {

std::string origin_text(const config::LoadResult& run, const config::Entry& entry) {
  const config::Origin origin = run.origin(entry.name());
  switch (origin.kind) {
    case config::Origin::Kind::kFile:
      return fmt::format("line {}", origin.line);
    case config::Origin::Kind::kSet:
      return "--set";
    case config::Origin::Kind::kFlavor:
      return config::family_of(run.config.model).find(entry.field->key) != nullptr
                 ? fmt::format("name {}", run.config.model.name)
                 : fmt::format("flavor {}", run.config.model.flavor);
    case config::Origin::Kind::kDefault:
      break;
  }
  return "default";
}

// The first clause of the help, to keep lines short; docs/config.md has the rest.
std::string comment(const config::Field& field) {
  const std::string_view help = field.help.substr(0, field.help.find(';'));
  return field.unit.empty() ? std::string(help) : fmt::format("{}: {}", field.unit, help);
}

// The shape that follows from the keys of [model].
std::string shape_text(const config::RunConfig& config) {
  try {
    const plan::ModelShape s = plan::model_shape(config.model, vocab_size_of_data(config));
    const int64_t parameters = plan::parameter_plan(s).num_parameters;
    const int64_t a_token = (s.tied ? 1 : 2) * s.D;
    return fmt::format(
        "# {} layers, width {}, {} heads of {} ({} for keys and values), feed-forward {}{}: {} parameters{}\n", s.L(),
        s.D, s.H, s.K, s.G, s.F(), s.V > 0 ? fmt::format(", vocabulary {}", s.V) : "", parameters,
        s.V > 0 ? "" : fmt::format(", and {} for each token of the vocabulary", a_token));
  } catch (const Error& e) {
    if (e.code() != ExitCode::kUser) throw;
    return "# the keys of [model] conflict: hearth config check says why\n";
  }
}

}  // namespace

int config_show(CommandLine& line) {
  Path toml;
  std::vector<std::string> sets;
  line.positional("RUN.toml", &toml, "the run file");
  line.option("--set SECTION.KEY=VALUE", &sets, kSetHelp);
  if (!line.parse()) return 0;
  const config::LoadResult run = config::read_run(toml, sets);
  config::throw_problems(run.file_name, run.problems);

  // One width for the whole file; unusually long values do not count.
  constexpr size_t kWidest = 44;
  size_t value_width = 0, origin_width = 0;
  const std::vector<config::Entry> entries = config::entries(run.config);
  const auto value_text = [&run](const config::Entry& entry) {
    return fmt::format("{} = {}", entry.field->key, config::to_toml_value(entry.field->value(run.config, entry.item)));
  };
  for (const config::Entry& entry : entries) {
    const size_t width = value_text(entry).size();
    if (width <= kWidest) value_width = std::max(value_width, width);
    origin_width = std::max(origin_width, origin_text(run, entry).size());
  }
  std::string text = fmt::format("# {}, resolved: value, where it comes from, what it is\n", toml.string());
  text += shape_text(run.config);
  for (const config::Entry& entry : entries) {
    const std::string heading = entry.heading();
    if (!heading.empty()) text += fmt::format("\n{}\n", heading);
    text += fmt::format("{:{}}  # {:{}}  {}\n", value_text(entry), value_width, origin_text(run, entry), origin_width,
                        comment(*entry.field));
  }
  fmt::print("{}", text);
  return 0;
}

}  // namespace hearth::commands
