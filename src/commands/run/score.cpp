// SPDX-License-Identifier: Apache-2.0
// The options of `hearth score`.
#include "commands/run/eval_options.h"
#include "commands/torch_options.h"

namespace hearth::commands {

std::optional<config::ScoreOptions> score_options(CommandLine& line) {
  config::ScoreOptions options;
  config::EvalOptions& eval = options.eval;
  line.positional("RUN", &options.run, "a run folder; its scores.jsonl gets a line for each step and name");
  line.option("--every K", &options.every, within(0, 1e15), "only checkpoints whose step K divides; 0 means all");
  line.option(
      "--data [NAME=]DIR", &eval.data,
      "as in `hearth eval`: documents to measure the loss on, in place of the run's own; may be given several times");
  line.option("--split NAME", &eval.split, "train, validation or test; default: the set's own split, else validation");
  line.option("--task [NAME=]FILE", &eval.tasks,
              "as in `hearth eval`: multiple-choice questions; may be given several times");
  line.flag("--tasks-only", &options.tasks_only, "without the validation loss");
  add_shots(line, eval);
  add_computation(line, eval);
  if (!line.parse()) return std::nullopt;
  check_shots(line, eval);
  need(line, "--tasks-only", !eval.tasks.empty(), "--task FILE");
  if (!options.tasks_only) return options;
  for (const char* option : {"--data", "--split", "--seed"}) {
    if (line.given(option))
      throw user_error(fmt::format("{} has no effect with --tasks-only", option), "it is for the validation loss",
                       fmt::format("leave out {}", option));
  }
  return options;
}

}  // namespace hearth::commands
