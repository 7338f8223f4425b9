// SPDX-License-Identifier: Apache-2.0
#include "infer/score.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <set>

#include "base/hash.h"
#include "base/log.h"
#include "base/quantity.h"
#include "checkpoint/manifest.h"
#include "checkpoint/step_folder.h"
#include "infer/eval.h"
#include "metrics/throughput.h"
#include "runfolder/names.h"
#include "runfolder/run_checkpoints.h"

namespace hearth::infer {
namespace {

// Scores that are measured together, and a text of all that they depend on, apart from the checkpoint, the program and
// the machine.
struct Measure {
  std::string task;  // as in EvalOptions::tasks; empty: the validation loss
  std::string rules;
};

std::vector<Measure> measures_of(const config::ScoreOptions& options) {
  const config::EvalOptions& o = options.eval;
  std::vector<Measure> measures;
  if (!options.tasks_only) {
    std::string rules = fmt::format("validation seed {} split {}", o.seed, o.split);
    for (const std::string& data : o.data) rules += fmt::format(" data {}", data);
    measures.push_back({"", rules});
  }
  const std::string examples = o.shots > 0 ? xxh3_128_hex(read_file(o.shots_from)) : "";
  for (const std::string& given : o.tasks) {
    const ChoiceTask task = read_choice_task(given);
    measures.push_back({given, fmt::format("task {} {} shots {} {} delimiter {}", task.name,
                                           xxh3_128_hex(read_file(task.file)), o.shots, examples, o.delimiter)});
  }
  return measures;
}

using Named = std::vector<std::pair<std::string, double>>;

// Other documents or another split are another curve, so they have another name.
Named validation_losses(LoadedModel& model, const config::EvalOptions& options) {
  const std::string name = options.split.empty() ? "validation_loss" : options.split + "_loss";
  Named losses;
  train::ValidationResult all;
  for (const EvalReport& set : eval_sets(model, options)) {
    all.loss_sum += set.validation.loss_sum;
    all.counted_tokens += set.validation.counted_tokens;
    const std::string label = set.name.empty() && !options.data.empty() ? folder_name(options.data.front()) : set.name;
    if (!label.empty()) losses.emplace_back(name + "." + label, set.validation.loss());
  }
  if (options.data.empty()) losses.emplace_back(name, all.loss());
  return losses;
}

Named accuracies(LoadedModel& model, config::EvalOptions options, const std::string& task) {
  options.tasks = {task};
  const ChoiceReport report = score_tasks(model, options).front();
  Named values;
  for (const ChoiceRule rule : kChoiceRules)
    values.emplace_back(fmt::format("{}.{}", report.name, name_of(rule)), report.accuracy(rule));
  return values;
}

std::vector<checkpoint::StepFolder> wanted_checkpoints(const Path& checkpoints, int64_t every) {
  std::vector<checkpoint::StepFolder> found = checkpoint::list_checkpoints(checkpoints);
  const int64_t last = found.empty() ? 0 : found.back().step;
  if (every > 0) std::erase_if(found, [every](const checkpoint::StepFolder& one) { return one.step % every != 0; });
  if (found.empty())
    throw user_error(fmt::format("no checkpoint in {} has a step that {} divides", checkpoints.string(), every),
                     fmt::format("its last one is step {}", last), "give another number, or leave --every out");
  return found;
}

// `hearth report` looks for scores beside the run's metrics.
void check_run(const Path& run, const Path& checkpoints) {
  const Path above = absolute_path(run).parent_path();
  if (checkpoints == run && !path_exists(run / runfolder::kRunFile) && path_exists(above / runfolder::kRunFile))
    throw user_error(fmt::format("{} is not a run folder", run.string()), "it has the checkpoints of one",
                     fmt::format("give {}", above.string()));
}

}  // namespace

std::string score_table(const std::vector<metrics::Score>& scores) {
  std::set<std::string> names;
  std::map<int64_t, std::map<std::string, double>> steps;
  for (const metrics::Score& score : scores) {
    names.insert(score.name);
    steps[score.step][score.name] = score.value;
  }
  std::string text = fmt::format("{:>10}", "step");
  for (const std::string& name : names) text += fmt::format("  {:>8}", name);
  for (const auto& [step, values] : steps) {
    text += fmt::format("\n{:>10}", step);
    for (const std::string& name : names) {
      const auto found = values.find(name);
      text += fmt::format("  {:>{}}", found == values.end() ? "" : fmt::format("{:.4f}", found->second),
                          std::max<size_t>(8, name.size()));
    }
  }
  return text + "\n";
}

ExitCode run_score(const config::ScoreOptions& options) {
  if (is_object(options.run))
    throw user_error(fmt::format("{} is in a store", options.run.string()), "scores are appended to a file of the run",
                     "copy the run to a disk");
  const Path checkpoints = runfolder::checkpoints_of(options.run);
  check_run(options.run, checkpoints);
  const std::vector<checkpoint::StepFolder> wanted = wanted_checkpoints(checkpoints, options.every);
  const Path file = options.run / runfolder::kScoresFile;
  const std::vector<Measure> measures = measures_of(options);
  std::set<std::string> known;
  for (const metrics::Score& score : metrics::read_scores(file)) known.insert(score.of);
  for (const auto& [step, number, folder] : wanted) {
    const std::string manifest = read_file(folder / checkpoint::kManifestFile);
    std::unique_ptr<LoadedModel> model;
    const double start_s = metrics::monotonic_seconds();
    for (const Measure& measure : measures) {
      const std::string of = xxh3_128_hex(measure.rules + "\n" + manifest);
      if (known.contains(of)) continue;
      if (!model) model = load_model(folder, options.eval.device);
      std::vector<metrics::Score> scores;
      for (const auto& [name, value] : measure.task.empty() ? validation_losses(*model, options.eval)
                                                            : accuracies(*model, options.eval, measure.task)) {
        if (!std::isfinite(value))
          throw damaged(fmt::format("{}: {} is {}", folder.string(), name, value), "the checkpoint's training diverged",
                        "leave it out with --every, or delete it");
        scores.push_back({step, name, value, of});
      }
      metrics::append_scores(file, scores);
    }
    if (model) log_info("step {} in {}", step, format_duration(metrics::monotonic_seconds() - start_s));
  }
  fmt::print("{}", score_table(metrics::read_scores(file)));
  std::fflush(stdout);
  return ExitCode::kDone;
}

}  // namespace hearth::infer
