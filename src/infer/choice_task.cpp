// SPDX-License-Identifier: Apache-2.0
#include "infer/choice_task.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/text.h"
#include "infer/bound.h"

namespace hearth::infer {
namespace {

using Json = nlohmann::ordered_json;

// A line of a task's file. Throws user_error with the file and the line's number.
Question parse_question(const Path& file, int64_t line, const std::string& text) {
  const auto error = [&](const std::string& why) {
    return user_error(fmt::format("{}:{}: this is not a question", file.string(), line), why,
                      R"(write {"query": "...", "choices": ["...", "..."], "gold": 0})");
  };
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) throw error("the line is not a JSON object");
  const auto member = [&](const char* name, bool (Json::*is_right)() const noexcept, const char* meaning) {
    const auto found = json.find(name);
    if (found == json.end()) throw error(fmt::format("\"{}\" is missing", name));
    if (!((*found).*is_right)()) throw error(fmt::format("\"{}\" is not {}", name, meaning));
    return *found;
  };
  const Json choices = member("choices", &Json::is_array, "a list of texts");
  const Json gold = member("gold", &Json::is_number_integer, "the number of the right choice, from 0");
  Question question{member("query", &Json::is_string, "a text").get<std::string>(), {}, 0, line};
  for (const Json& choice : choices) {
    if (!choice.is_string() || choice.get_ref<const std::string&>().empty())
      throw error("a member of \"choices\" is not a text, or empty");
    question.choices.push_back(choice.get<std::string>());
  }
  if (question.choices.size() < 2) throw error("\"choices\" has fewer than two texts");
  question.gold = gold.get<int64_t>();
  if (question.gold < 0 || question.gold >= std::ssize(question.choices))
    throw error(fmt::format("\"gold\" is {}, and there are {} choices", gold.dump(), question.choices.size()));
  return question;
}

std::vector<Question> read_questions(const Path& file) {
  if (!path_exists(file))
    throw user_error(
        fmt::format("there is no file {}", file.string()), "--task takes a file of questions",
        fmt::format("`scripts/lm_eval_task.py {0} {0}.jsonl` writes one of a task of lm-evaluation-harness",
                    file.stem().string()));
  std::vector<Question> questions;
  int64_t line = 0;
  for (const std::string& text : split_lines(read_stream(file))) {
    ++line;
    if (text.find_first_not_of(" \t\r") != std::string::npos) questions.push_back(parse_question(file, line, text));
  }
  if (questions.empty())
    throw user_error(fmt::format("{} has no questions", file.string()), {}, "write one JSON object a line");
  return questions;
}

// Characters are code points, as Python counts them.
double characters_of(const std::string& text) {
  return static_cast<double>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

struct RuleFacts {
  std::string_view name, meaning;
  double (*divisor)(const std::string& choice, const LogLikelihood& likelihood);  // of the sum
};

// In the order of ChoiceRule.
constexpr RuleFacts kRules[] = {
    {"acc", "by the sum of log-likelihoods", [](const auto&, const auto&) { return 1.0; }},
    {"acc_norm", "per character", [](const auto& choice, const auto&) { return characters_of(choice); }},
    {"acc_bytes", "per byte", [](const auto& choice, const auto&) { return static_cast<double>(choice.size()); }},
    {"acc_tokens", "per token", [](const auto&, const auto& of) { return static_cast<double>(of.tokens); }}};

const RuleFacts& facts_of(ChoiceRule rule) { return kRules[static_cast<size_t>(rule)]; }

std::vector<Question> examples_of(const config::EvalOptions& options) {
  if (options.shots == 0) return {};
  std::vector<Question> examples = read_questions(options.shots_from);
  if (static_cast<int64_t>(examples.size()) < options.shots)
    throw user_error(fmt::format("--shots {} are not there", options.shots),
                     fmt::format("{} has {} questions", options.shots_from.string(), examples.size()),
                     "give a smaller number");
  examples.resize(static_cast<size_t>(options.shots));
  return examples;
}

void check_model(const LoadedModel& model) {
  if (model.tokenizer->arrays() != nullptr || !model.tokenizer->has_text())
    throw user_error("--task needs a model of text",
                     fmt::format("{} was trained on {}", model.folder.string(), model.manifest.tokenizer),
                     "leave --task out");
  if (model.config.objective.masked() && !model.config.objective.diffuses())
    throw user_error("--task needs a model that predicts the next token",
                     fmt::format("{} fills in hidden tokens (objective.kind = \"masked_lm\")", model.folder.string()),
                     "leave --task out");
}

}  // namespace

std::string_view name_of(ChoiceRule rule) { return facts_of(rule).name; }

int64_t ChoiceReport::picked(size_t question, ChoiceRule rule) const {
  std::vector<double> values;
  for (size_t i = 0; i < scores[question].size(); ++i)
    values.push_back(scores[question][i].sum /
                     facts_of(rule).divisor(questions[question].choices[i], scores[question][i]));
  return std::max_element(values.begin(), values.end()) - values.begin();
}

double ChoiceReport::accuracy(ChoiceRule rule) const {
  int64_t right = 0;
  for (size_t i = 0; i < questions.size(); ++i) right += picked(i, rule) == questions[i].gold ? 1 : 0;
  return static_cast<double>(right) / static_cast<double>(questions.size());
}

double ChoiceReport::standard_error(ChoiceRule rule) const {
  const auto n = static_cast<double>(questions.size());
  const double p = accuracy(rule);
  return n > 1 ? std::sqrt(p * (1 - p) / (n - 1)) : 0;
}

double ChoiceReport::chance() const {
  double sum = 0;
  for (const Question& question : questions) sum += 1.0 / static_cast<double>(question.choices.size());
  return sum / static_cast<double>(questions.size());
}

ChoiceTask read_choice_task(const std::string& given) {
  const size_t equals = given.find('=');
  if (equals != std::string::npos && !path_exists(given)) {
    const Path file = given.substr(equals + 1);
    return {given.substr(0, equals), file, read_questions(file)};
  }
  return {Path(given).stem().string(), given, read_questions(given)};
}

std::string prompt_of(const Question& question, const std::vector<Question>& examples, const std::string& delimiter) {
  std::string text;
  for (const Question& example : examples)
    text += example.query + delimiter + example.choices[static_cast<size_t>(example.gold)] + "\n\n";
  return text + question.query;
}

std::vector<ChoiceReport> score_tasks(LoadedModel& model, const config::EvalOptions& options) {
  check_model(model);
  const BoundRules bound{draws_of(model, options), options.seed, options.batch_size};
  const std::vector<Question> examples = examples_of(options);
  std::vector<ChoiceTask> tasks;
  std::set<std::string> names;
  for (const std::string& given : options.tasks) {
    tasks.push_back(read_choice_task(given));
    if (!names.insert(tasks.back().name).second)
      throw user_error(fmt::format("two tasks are called \"{}\"", tasks.back().name),
                       "their reports would have the same name", "give each a name of its own: --task NAME=FILE");
  }
  const auto encoder = model.tokenizer->encoder(tokenizer::SpecialText::kParse);
  std::vector<ContinuationTokens> texts;
  for (const ChoiceTask& task : tasks) {
    for (const Question& question : task.questions) {
      const std::string prompt = prompt_of(question, examples, options.delimiter);
      for (const std::string& choice : question.choices) {
        try {
          texts.push_back(tokens_of(model, *encoder, {prompt, options.delimiter + choice}));
        } catch (const Error& e) {
          throw user_error(fmt::format("{}:{}: {}", task.file.string(), question.line, e.message()), e.why(), e.fix());
        }
      }
    }
  }
  const std::vector<LogLikelihood> all = model.config.objective.diffuses()
                                             ? log_likelihood_bounds(model, texts, bound)
                                             : log_likelihoods(model, texts, options.batch_size);
  std::vector<ChoiceReport> reports;
  auto next = all.begin();
  for (ChoiceTask& task : tasks) {
    ChoiceReport& report = reports.emplace_back(ChoiceReport{task.name, std::move(task.questions), {}});
    for (const Question& question : report.questions) {
      const auto end = next + static_cast<std::ptrdiff_t>(question.choices.size());
      report.scores.emplace_back(next, end);
      next = end;
    }
  }
  return reports;
}

std::string format_report(const ChoiceReport& report) {
  std::string text = fmt::format("{}\n{:<16} {}\n", report.name, "questions", report.questions.size());
  for (const ChoiceRule rule : kChoiceRules)
    text += fmt::format("{:<16} {:.4f} +- {:.4f}  {}\n", name_of(rule), report.accuracy(rule),
                        report.standard_error(rule), facts_of(rule).meaning);
  return text + fmt::format("{:<16} {:.4f}\n", "chance", report.chance());
}

void write_samples(const std::vector<ChoiceReport>& reports, const Path& file) {
  std::string text;
  for (const ChoiceReport& report : reports) {
    for (size_t i = 0; i < report.questions.size(); ++i) {
      const Question& question = report.questions[i];
      Json line{{"task", report.name}, {"line", question.line}, {"gold", question.gold}};
      for (const ChoiceRule rule : kChoiceRules) line[fmt::format("{}_pick", name_of(rule))] = report.picked(i, rule);
      for (size_t c = 0; c < question.choices.size(); ++c) {
        const LogLikelihood& score = report.scores[i][c];
        line["choices"].push_back({{"text", question.choices[c]},
                                   {"loglikelihood", score.sum},
                                   {"tokens", score.tokens},
                                   {"is_greedy", score.is_greedy}});
      }
      text += line.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace) + "\n";
    }
  }
  write_file_atomic(file, text);
}

}  // namespace hearth::infer
