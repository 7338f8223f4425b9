// SPDX-License-Identifier: Apache-2.0
// `hearth eval`: how well a checkpoint predicts held-out data, compared with n-gram models of the training data, and
// how it answers multiple-choice questions (choice_task.h).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "config/options.h"
#include "infer/choice_task.h"
#include "infer/strided_windows.h"
#include "train/validate.h"

namespace hearth::infer {

// The name of a set without a name of its own: its folder's name.
std::string folder_name(const Path& folder);

// The result for one set of documents.
struct EvalReport {
  // The units of the tokens' content, for bits per unit.
  enum class Units { kNone, kBytes, kSpikes };

  std::string name;   // the set's name; empty: there is only one set
  Path folder{};      // its dataset
  std::string split;  // the dataset's split
  train::ValidationResult validation;
  Units units = Units::kNone;
  std::optional<StridedWindows> strided{};  // how the loss was measured; empty: windows that follow each other
  bool masked = false;                      // hidden tokens are predicted, not the next ones
  int64_t mc_num = 0;  // masked_diffusion: the loss is of all tokens, and a bound from so many draws of each sequence
  bool weighted = false;  // the data weight tokens, so weights are counted, not tokens
  // For orders 1, 2, ...: bits per byte of text, or nats per token of recordings; empty without --ngram.
  std::vector<double> ngram;
  double perplexity() const;  // per token
  // All bits, including the bits of end-of-document tokens, per byte of text or per spike. Comparable between
  // tokenizers.
  double bits_per_unit() const;
};

// One report for each set. For every set the n-gram models count the split "train" of all datasets that the run trains
// on. Throws user_error if a dataset has another tokenizer than the checkpoint, lacks the split, or is the data that
// the n-gram models count.
std::vector<EvalReport> eval_sets(LoadedModel& model, const config::EvalOptions& options);
// The same for options.checkpoint.
std::vector<EvalReport> eval_checkpoint(const config::EvalOptions& options);

// The report in the command's format; all reports as one JSON object, whose members `hearth eval --help` lists.
std::string format_report(const EvalReport& report);
std::string reports_json(const std::vector<EvalReport>& sets, const std::vector<ChoiceReport>& tasks);

ExitCode run_eval(const config::EvalOptions& options);

}  // namespace hearth::infer
