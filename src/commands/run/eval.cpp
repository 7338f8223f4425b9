// SPDX-License-Identifier: Apache-2.0
// The options of `hearth eval`.
#include "commands/run/eval_options.h"
#include "commands/torch_options.h"
#include "data/study/ngram.h"
#include "data/study/token_ngram.h"

namespace hearth::commands {
namespace {

void check_tasks(const CommandLine& line, const config::EvalOptions& options) {
  need(line, "--window", options.stride > 0, "--stride K");
  need(line, "--samples", !options.tasks.empty(), "--task FILE");
  check_shots(line, options);
  if (options.tasks.empty() || !options.data.empty()) return;
  for (const char* option : {"--split", "--ngram", "--ngram-data", "--seed", "--stride"})
    need(line, option, false, "--data DIR");
}

}  // namespace

std::optional<config::EvalOptions> eval_options(CommandLine& line) {
  config::EvalOptions options;
  line.option("--checkpoint DIR", &options.checkpoint, "a checkpoint, or a run folder for its newest one").required();
  line.option("--data [NAME=]DIR", &options.data,
              "a folder made by `hearth data build` whose held-out documents are read; may be given several times; the "
              "validation sets of the run, or its own data, where not given");
  line.option("--split NAME", &options.split,
              "train, validation or test; default: the set's own split, else validation");
  line.option("--ngram N", &options.ngram, within(1, data::kMaxTokenNgramOrder),
              fmt::format("compare with n-gram models up to this order: over bytes of text (to {}), or over the tokens "
                          "of recordings (to {})",
                          data::kMaxNgramOrder, data::kMaxTokenNgramOrder));
  line.option("--ngram-data DIR", &options.ngram_data,
              "the n-gram models count the training documents of this folder, made by `hearth data build`; may be "
              "given several times; default: the run's training data");
  line.option("--task [NAME=]FILE", &options.tasks,
              "multiple-choice questions, one JSON object a line: {\"query\": TEXT, \"choices\": [TEXT, ...], "
              "\"gold\": NUMBER FROM 0}; may be given several times; without --data only these are evaluated");
  add_shots(line, options);
  line.option("--samples FILE", &options.samples, "write the log-likelihood of each choice, one JSON object a line");
  line.option("--stride K", &options.stride, within(1, 1e15),
              "windows overlap: one begins every K tokens, and scores only the tokens that no window before it has "
              "reached, as in Transformers' perplexity of fixed-length models");
  line.option("--window N", &options.window, within(2, 1e15),
              "of --stride: tokens of a window; default: training.seq_len");
  add_computation(line, options);
  line.option("--mc-num N", &options.mc_num, within(1, 1 << 20),
              "of a checkpoint of masked_diffusion: draws of hidden tokens for each sequence or choice, whose mean is "
              "the bound of its likelihood; default: 128");
  line.flag("--json", &options.json,
            "print one JSON object: of each of its \"sets\" name, loss, perplexity, predicts (\"next\" or \"hidden\" "
            "tokens, or \"all\", where the loss is a bound from mc_num draws), counted_tokens or counted_weights, unit "
            "(\"byte\" or \"spike\"), counted_units, bits_per_unit, "
            "window, stride and ngram (orders 1, 2, ...: bits per byte, or of recordings nats per token); of each of "
            "its \"tasks\" name, questions, chance, and acc, acc_norm, acc_bytes, acc_tokens with their standard "
            "errors (acc_stderr, ...); null: not known or not asked for");
  if (!line.parse()) return std::nullopt;
  if (!options.ngram_data.empty() && options.ngram.empty())
    throw user_error("--ngram-data goes with --ngram", "", "give --ngram N, or remove it");
  check_tasks(line, options);
  return options;
}

}  // namespace hearth::commands
