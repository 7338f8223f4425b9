// `hearth eval`: how well a checkpoint predicts the held-out text, beside n-gram models that saw the same training
// text.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "config/options.h"
#include "train/evaluate.h"

namespace hearth::train {

struct EvalReport {
  Evaluation evaluation;
  std::vector<double> ngram_bits_per_byte;  // of orders 1, 2, ...; empty: not asked for
  double perplexity() const;                // per token
  // All bits spent, on end-of-document tokens too, per byte of text: what tokenizers can be compared by.
  double bits_per_byte() const;
};

// Throws user_error where the dataset was built with another tokenizer than the checkpoint was trained with, or holds
// no held-out text.
EvalReport evaluate_checkpoint(const config::EvalOptions& options);

// The report as the command prints it.
std::string format_report(const EvalReport& report);

ExitCode run_eval(const config::EvalOptions& options);

}  // namespace hearth::train
