// `hearth eval`: checks what it is given, then becomes `hearth-train`.
#include "commands/commands.h"
#include "commands/hearth_train.h"
#include "commands/train_options.h"
#include "data/ngram.h"

namespace hearth::commands {

std::optional<config::EvalOptions> eval_options(CommandLine& line) {
  config::EvalOptions options;
  line.option("--checkpoint", "DIR", &options.checkpoint, "a checkpoint, or a run folder for its newest one")
      .required();
  line.option("--data", "DIR", &options.data,
              "a folder made by `hearth data build` whose held-out documents are read; the run's own where not given");
  line.option("--ngram", "N", &options.ngram, "show a byte n-gram model of this order beside it")
      .range(1, data::kMaxNgramOrder);
  line.option("--batch-size", "N", &options.batch_size, "sequences at a time").range(1, 1 << 20);
  line.option("--threads", "N", &options.threads, "CPU threads; 0 means all it may use").range(0, 4096);
  if (!line.parse()) return std::nullopt;
  return options;
}

int eval(CommandLine& line) {
  if (!eval_options(line)) return 0;
  become_hearth_train(line, "eval");
}

}  // namespace hearth::commands
