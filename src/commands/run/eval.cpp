// `hearth eval`: checks its options, then becomes `hearth-train`.
#include <fmt/format.h>

#include "base/error.h"
#include "commands/commands.h"
#include "commands/hearth_train.h"
#include "commands/run/options.h"
#include "data/study/ngram.h"
#include "data/study/token_ngram.h"

namespace hearth::commands {

std::optional<config::EvalOptions> eval_options(CommandLine& line) {
  config::EvalOptions options;
  line.option("--checkpoint", "DIR", &options.checkpoint, "a checkpoint, or a run folder for its newest one")
      .required();
  line.option("--data", "[NAME=]DIR", &options.data,
              "a folder made by `hearth data build` whose held-out documents are read; may be given several times; the "
              "validation sets of the run, or its own data, where not given");
  line.option("--split", "NAME", &options.split,
              "train, validation or test; default: the set's own split, else validation");
  line.option(
          "--ngram", "N", &options.ngram,
          fmt::format("compare with n-gram models up to this order: over bytes of text (to {}), or over the tokens of "
                      "recordings (to {})",
                      data::kMaxNgramOrder, data::kMaxTokenNgramOrder))
      .range(1, data::kMaxTokenNgramOrder);
  line.option("--ngram-data", "DIR", &options.ngram_data,
              "the n-gram models count the training documents of this folder, made by `hearth data build`; may be "
              "given several times; default: the run's training data");
  line.option("--seed", "S", &options.seed, "of the positions that a masked model has to predict");
  line.option("--batch-size", "N", &options.batch_size, "sequences at a time").range(1, 1 << 20);
  line.option("--threads", "N", &options.threads, "CPU threads; 0 means all it may use").range(0, 4096);
  line.option("--device", "NAME", &options.device, "the device: cpu, or cuda for a GPU").choices({"cpu", "cuda"});
  line.flag(
      "--json", &options.json,
      "print one JSON object: of each of its \"sets\" name, loss, perplexity, predicts (\"next\" or \"hidden\" "
      "tokens), counted_tokens or counted_weights, unit (\"byte\" or \"spike\"), counted_units, bits_per_unit and "
      "ngram (orders 1, 2, ...: bits per byte, or of recordings nats per token); null: not known or not asked for");
  if (!line.parse()) return std::nullopt;
  if (!options.ngram_data.empty() && options.ngram.empty())
    throw user_error("--ngram-data goes with --ngram", "", "give --ngram N, or remove it");
  return options;
}

int eval(CommandLine& line) {
  if (!eval_options(line)) return 0;
  become_hearth_train(line);
}

}  // namespace hearth::commands
