// `hearth eval`: checks its options, then becomes `hearth-train`.
#include <fmt/format.h>

#include "base/error.h"
#include "commands/commands.h"
#include "commands/hearth_train.h"
#include "commands/run/options.h"
#include "data/study/ngram.h"
#include "data/study/token_ngram.h"

namespace hearth::commands {
namespace {

// An option that has no effect is an error.
void need(const CommandLine& line, const char* option, bool is_there, const char* other) {
  if (line.given(option) && !is_there)
    throw user_error(fmt::format("{} goes with {}", option, other), "", fmt::format("give {}, or remove it", other));
}

void check_tasks(const CommandLine& line, const config::EvalOptions& options) {
  need(line, "--window", options.stride > 0, "--stride K");
  need(line, "--samples", !options.tasks.empty(), "--task FILE");
  check_shots(line, options);
  if (options.tasks.empty() || !options.data.empty()) return;
  for (const char* option : {"--split", "--ngram", "--ngram-data", "--seed", "--stride"})
    need(line, option, false, "--data DIR");
}

}  // namespace

void add_shots(CommandLine& line, config::EvalOptions& options) {
  line.option("--shots", "N", &options.shots, "put the first N questions of --shots-from, solved, before each question")
      .range(0, 1 << 20);
  line.option("--shots-from", "FILE", &options.shots_from, "questions in the format of --task");
  line.option("--delimiter", "TEXT", &options.delimiter, "text between a query and a choice");
}

void check_shots(const CommandLine& line, const config::EvalOptions& options) {
  for (const char* option : {"--shots", "--shots-from", "--delimiter"})
    need(line, option, !options.tasks.empty(), "--task FILE");
  need(line, "--shots", options.shots == 0 || !options.shots_from.empty(), "--shots-from FILE");
  need(line, "--shots-from", options.shots > 0, "--shots N");
}

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
  line.option(
      "--task", "[NAME=]FILE", &options.tasks,
      "multiple-choice questions, one JSON object a line: {\"query\": TEXT, \"choices\": [TEXT, ...], \"gold\": "
      "NUMBER FROM 0}; may be given several times; without --data only these are evaluated");
  add_shots(line, options);
  line.option("--samples", "FILE", &options.samples, "write the log-likelihood of each choice, one JSON object a line");
  line.option("--stride", "K", &options.stride,
              "windows overlap: one begins every K tokens, and scores only the tokens that no window before it has "
              "reached, as in Transformers' perplexity of fixed-length models")
      .range(1, 1e15);
  line.option("--window", "N", &options.window, "of --stride: tokens of a window; default: training.seq_len")
      .range(2, 1e15);
  line.option("--seed", "S", &options.seed, "of the positions that a masked model has to predict");
  line.option("--batch-size", "N", &options.batch_size, "sequences at a time").range(1, 1 << 20);
  line.option("--threads", "N", &options.threads, "CPU threads; 0 means all it may use").range(0, 4096);
  line.option("--device", "NAME", &options.device, "the device: cpu, or cuda for a GPU").choices({"cpu", "cuda"});
  line.flag(
      "--json", &options.json,
      "print one JSON object: of each of its \"sets\" name, loss, perplexity, predicts (\"next\" or \"hidden\" "
      "tokens), counted_tokens or counted_weights, unit (\"byte\" or \"spike\"), counted_units, bits_per_unit, window, "
      "stride and "
      "ngram (orders 1, 2, ...: bits per byte, or of recordings nats per token); of each of its \"tasks\" name, "
      "questions, chance, and acc, acc_norm, acc_bytes, acc_tokens with their standard errors (acc_stderr, ...); null: "
      "not known or not asked for");
  if (!line.parse()) return std::nullopt;
  if (!options.ngram_data.empty() && options.ngram.empty())
    throw user_error("--ngram-data goes with --ngram", "", "give --ngram N, or remove it");
  check_tasks(line, options);
  return options;
}

int eval(CommandLine& line) {
  if (!eval_options(line)) return 0;
  become_hearth_train(line);
}

}  // namespace hearth::commands
