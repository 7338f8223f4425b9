#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "infer/eval.h"

namespace hearth::infer {
namespace {

using Json = nlohmann::ordered_json;  // writes NaN and infinity, such as a loss that overflowed, as null

Json report_json(const EvalReport& report) {
  const train::ValidationResult& e = report.validation;
  Json json;
  json["name"] = report.name.empty() ? Json() : Json(report.name);
  json["loss"] = e.loss();
  json["perplexity"] = report.perplexity();
  json["predicts"] = report.masked ? "hidden" : "next";
  json[report.weighted ? "counted_weights" : "counted_tokens"] = e.counted_tokens;
  const bool has_units = report.units != EvalReport::Units::kNone && e.counted_units > 0;
  json["unit"] = !has_units ? Json() : report.units == EvalReport::Units::kSpikes ? "spike" : "byte";
  json["counted_units"] = has_units ? Json(e.counted_units) : Json();
  json["bits_per_unit"] = has_units ? Json(report.bits_per_unit()) : Json();
  json["window"] = report.sliding ? Json(report.sliding->window) : Json();
  json["stride"] = report.sliding ? Json(report.sliding->stride) : Json();
  json["ngram"] = report.ngram.empty() ? Json() : Json(report.ngram);
  return json;
}

Json report_json(const ChoiceReport& report) {
  Json json{{"name", report.name}, {"questions", report.questions.size()}, {"chance", report.chance()}};
  for (const ChoiceRule rule : kChoiceRules) {
    json[std::string(name_of(rule))] = report.accuracy(rule);
    json[fmt::format("{}_stderr", name_of(rule))] = report.standard_error(rule);
  }
  return json;
}

template <typename Report>
Json list_of(const std::vector<Report>& reports) {
  Json list = Json::array();
  for (const Report& report : reports) list.push_back(report_json(report));
  return list;
}

}  // namespace

std::string reports_json(const std::vector<EvalReport>& sets, const std::vector<ChoiceReport>& tasks) {
  return Json{{"sets", list_of(sets)}, {"tasks", list_of(tasks)}}.dump(2, ' ', /*ensure_ascii=*/false,
                                                                       Json::error_handler_t::replace) +
         "\n";
}

}  // namespace hearth::infer
