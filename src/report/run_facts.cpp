// SPDX-License-Identifier: Apache-2.0
#include "report/run_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/quantity.h"
#include "checkpoint/manifest.h"
#include "checkpoint/retain.h"
#include "checkpoint/save.h"
#include "config/derived.h"
#include "config/load.h"
#include "plan/optimizer/lr_schedule.h"
#include "report/run_extras.h"
#include "runfolder/names.h"

namespace hearth::report {
namespace {

void note_damage(PageRun& run) {
  const metrics::History& history = run.history;
  if (history.records.empty()) run.notes.push_back("metrics.jsonl has no steps");
  if (!history.damaged_lines.empty())
    run.notes.push_back(fmt::format("metrics.jsonl has {}, left out here; the first is line {}",
                                    counted(std::ssize(history.damaged_lines), "damaged line"),
                                    history.damaged_lines.front()));
  if (history.torn)
    run.notes.push_back("metrics.jsonl ends within a line: the training writes it now, or was killed while it did");
}

// Where the length is in epochs, only the data say how many steps that is.
void add_schedule(PageRun& run, const config::RunConfig& config) {
  if (config.training.steps == 0 && config.training.tokens == 0) return;
  constexpr int64_t kPoints = 400;
  run.planned_steps = config::total_steps(config, 0);
  const plan::LrSchedule schedule = plan::lr_schedule(config.lr_scheduler, config.optimizer.lr, run.planned_steps);
  const int64_t stride = std::max<int64_t>(run.planned_steps / kPoints, 1);
  for (int64_t step = 1; step <= run.planned_steps; step += stride)
    run.planned_lr[step] = plan::learning_rate(schedule, step);
}

std::optional<config::RunConfig> add_configuration(PageRun& run, const Path& file) {
  if (!path_exists(file)) {
    run.notes.push_back("there is no config.toml next to metrics.jsonl, so that its configuration is not known");
    return std::nullopt;
  }
  try {
    const config::RunConfig config = config::from_toml_text(read_file(file), file.string(), file.parent_path());
    run.configuration = configuration_texts(config);
    add_schedule(run, config);
    return config;
  } catch (const Error& e) {
    run.notes.push_back(fmt::format("its configuration is not known: {}", e.message()));
    return std::nullopt;
  }
}

// As the newest checkpoint says.
std::optional<checkpoint::Manifest> add_origin(PageRun& run, const Path& checkpoints) {
  try {
    const std::vector<int64_t> steps = checkpoint::list_steps(checkpoints);
    if (steps.empty()) return std::nullopt;
    const Path file = checkpoint::step_folder(checkpoints, steps.back()) / checkpoint::kManifestFile;
    const checkpoint::Manifest m = checkpoint::parse_manifest(read_file(file), file);
    run.origin = {{"newest checkpoint", fmt::format("step {}, {}", m.step, m.created)},
                  {"Hearth", m.code_version},
                  {"LibTorch", m.libtorch_version},
                  {"host", m.host},
                  {"ranks", fmt::format("{}", m.ranks)},
                  {"dataset", m.dataset_hash},
                  {"tokenizer", fmt::format("{} {}", m.tokenizer, m.tokenizer_hash)},
                  {"checkpoint before it", m.parent}};
    return m;
  } catch (const Error& e) {
    run.notes.push_back(fmt::format("its newest checkpoint cannot be read: {}", e.message()));
    return std::nullopt;
  }
}

}  // namespace

std::vector<NamedText> configuration_texts(const config::RunConfig& config) {
  std::vector<NamedText> texts;
  for (const config::Entry& entry : config::entries(config))
    texts.emplace_back(entry.name(), config::to_toml_value(entry.field->value(config, entry.item)));
  return texts;
}

Path metrics_file_of(const Path& run) {
  Path file = std::filesystem::is_directory(run) ? run / runfolder::kMetricsFile : run;
  if (!path_exists(file))
    throw user_error(fmt::format("{} does not exist", file.string()), "a training writes it at its first step",
                     "name a run folder, or its metrics.jsonl");
  return file;
}

PageRun page_run(const std::string& name, const Path& metrics_file) {
  PageRun run{.name = name, .history = metrics::read_history(metrics_file)};
  note_damage(run);
  const Path folder = metrics_file.parent_path();
  const std::optional<config::RunConfig> config = add_configuration(run, folder / runfolder::kRunFile);
  const std::optional<checkpoint::Manifest> newest =
      add_origin(run, config ? config->checkpoint_folder() : folder / "checkpoints");
  thin_out(run.history.samples);
  add_scores(run, folder / runfolder::kScoresFile);
  add_plan(run, folder / runfolder::kPlanFile);
  if (config) add_mixture(run, *config, newest);
  return run;
}

}  // namespace hearth::report
