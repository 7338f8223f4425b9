// SPDX-License-Identifier: Apache-2.0
// Multiple-choice tasks: `hearth eval --task FILE.jsonl`. The model picks the choice that it finds most likely.
//
// Each line of the file is a question, in the format of LLM Foundry's multiple-choice tasks:
//   {"query": "Question: What is red?\nAnswer:", "choices": ["a rose", "the sea"], "gold": 0}
// The continuation that is scored is the delimiter and a choice. Other members are ignored.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/file.h"
#include "config/options.h"
#include "infer/continuation.h"

namespace hearth::infer {

struct Question {
  std::string query;
  std::vector<std::string> choices;  // at least two, none empty
  int64_t gold = 0;                  // the right choice
  int64_t line = 0;                  // of the file, from 1
};

struct ChoiceTask {
  std::string name;
  Path file;
  std::vector<Question> questions;
};

// Which score of the choices is compared. The first three are lm-evaluation-harness's acc, acc_norm and acc_bytes.
enum class ChoiceRule { kSum, kPerCharacter, kPerByte, kPerToken };
inline constexpr ChoiceRule kChoiceRules[] = {ChoiceRule::kSum, ChoiceRule::kPerCharacter, ChoiceRule::kPerByte,
                                              ChoiceRule::kPerToken};
std::string_view name_of(ChoiceRule rule);  // "acc", "acc_norm", "acc_bytes", "acc_tokens"

struct ChoiceReport {
  std::string name;
  std::vector<Question> questions;
  std::vector<std::vector<LogLikelihood>> scores;  // of each choice of each question

  // The choice that the rule picks; the first one if several are equal.
  int64_t picked(size_t question, ChoiceRule rule) const;
  double accuracy(ChoiceRule rule) const;
  // The standard error of the accuracy: the sample's deviation / sqrt(questions). 0 for one question.
  double standard_error(ChoiceRule rule) const;
  double chance() const;  // the accuracy of guesses
};

// "FILE" or "NAME=FILE". Throws user_error with the file and the line.
ChoiceTask read_choice_task(const std::string& given);

// The text before a question's choices: solved examples, each followed by an empty line, then the query.
std::string prompt_of(const Question& question, const std::vector<Question>& examples, const std::string& delimiter);

// One report for each of options.tasks. Throws all errors of files before the model computes.
std::vector<ChoiceReport> score_tasks(LoadedModel& model, const config::EvalOptions& options);

std::string format_report(const ChoiceReport& report);
// Each question with the log-likelihoods of its choices, one JSON object a line.
void write_samples(const std::vector<ChoiceReport>& reports, const Path& file);

}  // namespace hearth::infer
