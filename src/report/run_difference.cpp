// SPDX-License-Identifier: Apache-2.0
#include "report/run_difference.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

namespace hearth::report {
namespace {

using metrics::StepRecord;

struct Number {
  const char* name;
  std::optional<double> (*of)(const StepRecord&);
};

// The samples come first: with other data everything else differs, too.
constexpr Number kNumbers[] = {
    {"first sample",
     [](const StepRecord& r) {
       return r.samples > 0 ? std::optional(static_cast<double>(r.first_sample)) : std::nullopt;
     }},
    {"samples",
     [](const StepRecord& r) { return r.samples > 0 ? std::optional(static_cast<double>(r.samples)) : std::nullopt; }},
    {"tokens", [](const StepRecord& r) { return std::optional(static_cast<double>(r.tokens)); }},
    {"learning rate", [](const StepRecord& r) { return r.lr; }},
    {"loss", [](const StepRecord& r) { return r.loss; }},
    {"gradient norm", [](const StepRecord& r) { return r.grad_norm; }},
    {"validation loss", [](const StepRecord& r) { return r.validation_loss; }},
};

void add_step(NumberDifference& number, int64_t step, double first, double second) {
  ++number.steps;
  if (first == second) return;
  if (number.first_step == 0) {
    number.first_step = step;
    number.first = first;
    number.second = second;
  }
  if (const double apart = std::abs(first - second); apart > number.largest) {
    number.largest = apart;
    number.largest_step = step;
  }
}

std::string columns(const std::vector<TextDifference>& rows) {
  size_t name = 0, first = 0;
  for (const TextDifference& row : rows) {
    name = std::max(name, row.name.size());
    first = std::max(first, row.first.size());
  }
  std::string text;
  for (const TextDifference& row : rows)
    text += fmt::format("  {:<{}}  {:<{}}  {}\n", row.name, name, row.first, first, row.second);
  return text;
}

std::string section(const char* heading, std::vector<TextDifference> rows, const std::string& first,
                    const std::string& second) {
  if (rows.empty()) return fmt::format("{}: equal\n", heading);
  for (TextDifference& row : rows) {
    for (std::string* side : {&row.first, &row.second})
      if (side->empty()) *side = "-";
  }
  rows.insert(rows.begin(), {"", first, second});
  return fmt::format("{}:\n{}", heading, columns(rows));
}

}  // namespace

std::vector<TextDifference> text_differences(const std::vector<NamedText>& first,
                                             const std::vector<NamedText>& second) {
  std::map<std::string, std::string> others(second.begin(), second.end());
  const std::map<std::string, std::string> ours(first.begin(), first.end());
  std::vector<TextDifference> found;
  for (const auto& [name, text] : first)
    if (const std::string& theirs = others[name]; theirs != text) found.push_back({name, text, theirs});
  for (const auto& [name, text] : second)
    if (!ours.contains(name) && !text.empty()) found.push_back({name, "", text});
  return found;
}

RunDifference difference(const PageRun& first, const PageRun& second) {
  RunDifference found;
  found.configuration = text_differences(first.configuration, second.configuration);
  found.origin = text_differences(first.origin, second.origin);
  const std::vector<StepRecord>&a = first.history.records, &b = second.history.records;
  if (!a.empty()) found.first_steps = a.back().step;
  if (!b.empty()) found.second_steps = b.back().step;
  for (const Number& number : kNumbers) found.numbers.push_back({.name = number.name});
  for (auto i = a.begin(), j = b.begin(); i != a.end() && j != b.end();) {
    if (i->step != j->step) {
      ++(i->step < j->step ? i : j);
      continue;
    }
    if (i->step > 0) ++found.common_steps;
    for (size_t n = 0; n < found.numbers.size(); ++n) {
      const std::optional<double> ours = kNumbers[n].of(*i), theirs = kNumbers[n].of(*j);
      if (ours && theirs) add_step(found.numbers[n], i->step, *ours, *theirs);
    }
    ++i, ++j;
  }
  std::erase_if(found.numbers, [](const NumberDifference& number) { return number.steps == 0; });
  return found;
}

std::string format_difference(const RunDifference& d, const std::string& first, const std::string& second) {
  std::string text =
      section("configuration", d.configuration, first, second) + section("newest checkpoint", d.origin, first, second);
  text += fmt::format("steps: {} of {}, {} of {}, {} in both\n", d.first_steps, first, d.second_steps, second,
                      d.common_steps);
  std::vector<TextDifference> rows;
  for (const NumberDifference& number : d.numbers) {
    if (number.first_step == 0)
      rows.push_back({number.name, fmt::format("equal at {} steps", number.steps), ""});
    else
      rows.push_back({number.name, fmt::format("differs from step {} on", number.first_step),
                      fmt::format("{} and {}; most at step {}: {:.3g}", number.first, number.second,
                                  number.largest_step, number.largest)});
  }
  return text + columns(rows);
}

}  // namespace hearth::report
