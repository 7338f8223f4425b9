// `hearth score`: checks its options, then becomes `hearth-train`.
#include <fmt/format.h>

#include "base/error.h"
#include "commands/commands.h"
#include "commands/hearth_train.h"
#include "commands/run/options.h"

namespace hearth::commands {

std::optional<config::ScoreOptions> score_options(CommandLine& line) {
  config::ScoreOptions options;
  config::EvalOptions& eval = options.eval;
  line.positional("RUN", &options.run, "a run folder; its scores.jsonl gets a line for each step and name");
  line.option("--every", "K", &options.every, "only checkpoints whose step K divides; 0 means all").range(0, 1e15);
  line.option("--data", "[NAME=]DIR", &eval.data,
              "as in `hearth eval`: documents to measure the loss on, in place of the run's own; may be given several "
              "times");
  line.option("--split", "NAME", &eval.split,
              "train, validation or test; default: the set's own split, else validation");
  line.option("--task", "[NAME=]FILE", &eval.tasks,
              "as in `hearth eval`: multiple-choice questions; may be given several times");
  line.flag("--tasks-only", &options.tasks_only, "without the validation loss");
  add_shots(line, eval);
  line.option("--seed", "S", &eval.seed, "of the positions that a masked model has to predict");
  line.option("--batch-size", "N", &eval.batch_size, "sequences at a time").range(1, 1 << 20);
  line.option("--threads", "N", &eval.threads, "CPU threads; 0 means all it may use").range(0, 4096);
  line.option("--device", "NAME", &eval.device, "the device: cpu, or cuda for a GPU").choices({"cpu", "cuda"});
  if (!line.parse()) return std::nullopt;
  check_shots(line, eval);
  if (options.tasks_only && eval.tasks.empty())
    throw user_error("--tasks-only goes with --task FILE", "", "give --task FILE, or remove it");
  if (!options.tasks_only) return options;
  for (const char* option : {"--data", "--split", "--seed"}) {
    if (line.given(option))
      throw user_error(fmt::format("{} has no effect with --tasks-only", option), "it is for the validation loss",
                       fmt::format("leave out {}", option));
  }
  return options;
}

int score(CommandLine& line) {
  if (!score_options(line)) return 0;
  become_hearth_train(line);
}

}  // namespace hearth::commands
