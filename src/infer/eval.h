// `hearth eval`: how well a checkpoint predicts what it was not trained on, beside n-gram models that counted the
// training data.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "config/options.h"
#include "train/evaluate.h"

namespace hearth::infer {

// The result on one set of documents.
struct EvalReport {
  // What the tokens stand for, and so what their bits are counted by.
  enum class Units { kNone, kBytes, kSpikes };

  std::string name;  // of the set; empty: there is only one
  train::Evaluation evaluation;
  Units units = Units::kNone;
  bool masked = false;    // hidden tokens are predicted, and not the next ones
  bool weighted = false;  // by the data: what is counted are weights, and not tokens
  std::vector<double>
      ngram;  // of orders 1, 2, ...: bits per byte, or of recordings nats per token; empty: not asked for
  double perplexity() const;  // per token
  // All bits spent, on end-of-document tokens too, per byte of text or per spike: what tokenizers can be compared by.
  double bits_per_unit() const;
};

// A report for each set. The n-gram models counted the split "train" of everything that the run trains on, whatever the
// set. Throws user_error where a dataset was built with another tokenizer than the checkpoint was trained with, has no
// such split, or is what n-gram models would count.
std::vector<EvalReport> evaluate_checkpoint(const config::EvalOptions& options);

// The report as the command prints it; all of them as one JSON object, whose members `hearth eval --help` names.
std::string format_report(const EvalReport& report);
std::string reports_json(const std::vector<EvalReport>& reports);

ExitCode run_eval(const config::EvalOptions& options);

}  // namespace hearth::infer
