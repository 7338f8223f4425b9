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
  json["ngram"] = report.ngram.empty() ? Json() : Json(report.ngram);
  return json;
}

}  // namespace

std::string reports_json(const std::vector<EvalReport>& reports) {
  Json sets = Json::array();
  for (const EvalReport& report : reports) sets.push_back(report_json(report));
  return Json{{"sets", sets}}.dump(2, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace) + "\n";
}

}  // namespace hearth::infer
