#include "train/eval.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "data/ngram.h"
#include "train/loaded_model.h"

namespace hearth::train {
namespace {

// Bytes of text that each id stands for, [V]. Ids past the tokenizer's vocabulary (padding) stand for none.
std::vector<int64_t> bytes_of_tokens(const tokenizer::Tokenizer& tokenizer, int64_t vocab_size) {
  std::vector<int64_t> bytes(static_cast<size_t>(vocab_size), 0);
  if (!tokenizer.has_text()) return bytes;
  std::string text;
  for (int64_t id = 0; id < std::min(vocab_size, tokenizer.vocab_size()); ++id) {
    text.clear();
    tokenizer.decode(static_cast<uint32_t>(id), text);
    bytes[static_cast<size_t>(id)] = static_cast<int64_t>(text.size());
  }
  return bytes;
}

Path only_source(const LoadedModel& model) {
  const auto sources = model.config.sources();
  if (sources.size() == 1) return model.config.resolve(sources.front().path);
  throw user_error(fmt::format("{} was trained on {} sources", model.folder.string(), sources.size()),
                   "which of them to measure on is not said", "give one: --data DIR");
}

void check_same_tokenizer(const LoadedModel& model, const data::Dataset& dataset) {
  if (dataset.manifest().tokenizer_hash == model.manifest.tokenizer_hash) return;
  const Path kept = model.folder / model.manifest.tokenizer;
  throw user_error(
      fmt::format("{} was built with another tokenizer than {} was trained with", dataset.folder().string(),
                  model.folder.string()),
      fmt::format("the dataset's is {} ({}), the checkpoint's {} ({})", dataset.manifest().rules.tokenizer,
                  dataset.manifest().tokenizer_hash, model.manifest.tokenizer, model.manifest.tokenizer_hash),
      fmt::format("build the dataset again: hearth data build --tokenizer {} ...",
                  path_exists(kept) ? kept.string() : model.manifest.tokenizer));
}

}  // namespace

double EvalReport::perplexity() const { return std::exp(evaluation.loss()); }
double EvalReport::bits_per_byte() const { return evaluation.loss_sum / std::log(2.0) / evaluation.counted_bytes; }

EvalReport evaluate_checkpoint(const config::EvalOptions& options) {
  const c10::InferenceMode no_gradients;
  const auto model = load_model(options.checkpoint);
  const data::Dataset dataset = data::Dataset::open(options.data.empty() ? only_source(*model) : options.data);
  check_same_tokenizer(*model, dataset);

  const int64_t seq_len = model->config.training.seq_len;
  model::Transformer transformer(model->shape, model->plan, options.batch_size, seq_len, model->dtype,
                                 model->config.memory.loss_chunk_tokens, /*training=*/false);
  const std::vector<int64_t> token_bytes = bytes_of_tokens(*model->tokenizer, model->shape.V);
  EvalReport report;
  report.evaluation =
      evaluate(transformer, *model->weights, dataset.split("validation"),
               {.seq_len = seq_len, .local_batch_size = options.batch_size, .token_bytes = token_bytes});
  if (!options.ngram.empty()) {
    const int64_t order = *std::max_element(options.ngram.begin(), options.ngram.end());
    report.ngram_bits_per_byte = data::score_ngrams(dataset, order).bits_per_byte;
  }
  return report;
}

std::string format_report(const EvalReport& report) {
  std::string text;
  text += fmt::format("loss             {:.4f} nats per token\n", report.evaluation.loss());
  text += fmt::format("perplexity       {:.4f} per token\n", report.perplexity());
  const bool has_text = report.evaluation.counted_bytes > 0;
  if (has_text) text += fmt::format("bits per byte    {:.4f}\n", report.bits_per_byte());
  text += fmt::format("tokens counted   {:.0f}\n", report.evaluation.counted_tokens);
  if (has_text) text += fmt::format("bytes counted    {:.0f}\n", report.evaluation.counted_bytes);
  if (report.ngram_bits_per_byte.empty()) return text;

  text += "\nbits per byte of the same text, interpolated Witten-Bell n-gram models over bytes:\n";
  const double ours = report.bits_per_byte();
  for (size_t i = 0; i < report.ngram_bits_per_byte.size(); ++i) {
    const double theirs = report.ngram_bits_per_byte[i];
    text +=
        fmt::format("  order {}        {:.4f}   the model is {}\n", i + 1, theirs, ours < theirs ? "better" : "worse");
  }
  text += fmt::format("  this model     {:.4f}\n", ours);
  return text;
}

ExitCode run_eval(const config::EvalOptions& options) {
  fmt::print("{}", format_report(evaluate_checkpoint(options)));
  std::fflush(stdout);
  return ExitCode::kDone;
}

}  // namespace hearth::train
