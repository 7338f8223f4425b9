#include "report/run_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>

#include "report/bins.h"
#include "report/page_assets.h"
#include "report/svg.h"

namespace hearth::report {
namespace {

using Json = nlohmann::ordered_json;
using metrics::Record;

struct Chart {
  const char* key;
  const char* title;
  const char* unit;
  std::optional<double> (*value)(const Record& record);
};

// "validation" and "scores" have points of their own.
constexpr Chart kCharts[] = {
    {"loss", "Training loss", "nats a token", [](const Record& r) { return r.loss; }},
    {"validation", "Validation loss", "nats a token", nullptr},
    {"scores", "Scores", "", nullptr},
    {"grad_norm", "Gradient norm, before clipping", "", [](const Record& r) { return r.grad_norm; }},
    {"lr", "Learning rate", "", [](const Record& r) { return r.lr; }},
    {"tokens_per_second", "Throughput", "tokens/s",
     [](const Record& r) { return r.step_s > 0 ? std::optional(r.tokens_per_second) : std::nullopt; }},
    {"mfu", "Model FLOPs utilisation", "%",
     [](const Record& r) { return r.mfu > 0 ? std::optional(100 * r.mfu) : std::nullopt; }},
    {"step_s", "Time of a step", "s",
     [](const Record& r) { return r.step_s > 0 ? std::optional(r.step_s) : std::nullopt; }},
    {"data_wait", "Share of a step that waits for data", "%",
     [](const Record& r) { return r.step_s > 0 ? std::optional(100 * r.data_wait_share()) : std::nullopt; }},
    {"memory", "Memory, at most so far", "GiB",
     [](const Record& r) {
       return r.memory_bytes > 0 ? std::optional(static_cast<double>(r.memory_bytes) / (1 << 30)) : std::nullopt;
     }},
};

// Six digits show a curve; all of them would double the page.
Json rounded(double value) {
  if (!std::isfinite(value)) return nullptr;
  return std::strtod(fmt::format("{:.6g}", value).c_str(), nullptr);
}
Json rounded(const std::vector<double>& values) {
  Json list = Json::array();
  for (const double value : values) list.push_back(rounded(value));
  return list;
}
Json maybe_number(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

Json bins_json(const Bins& bins, int64_t width) {
  Json json = {{"first", bins.first}, {"mean", rounded(bins.mean)}};
  if (width > 1) json.update({{"low", rounded(bins.low)}, {"high", rounded(bins.high)}});
  return json;
}

// At the last step of each bin, from the first bin on.
Json cumulated(const std::vector<Record>& records, int64_t width, const std::function<double(const Record&)>& value) {
  std::vector<double> values;
  for (const Record& record : records) {
    if (record.step == 0) continue;
    values.resize(static_cast<size_t>((record.step - 1) / width + 1), values.empty() ? 0 : values.back());
    values.back() = value(record);
  }
  return rounded(values);
}

Json validation_json(const std::vector<Record>& records) {
  struct Points {
    Json steps = Json::array(), values = Json::array();
  };
  std::map<std::string, Points> sets;  // "": all together
  for (const Record& record : records) {
    const auto add = [&](const std::string& set, double loss) {
      sets[set].steps.push_back(record.step);
      sets[set].values.push_back(rounded(loss));
    };
    if (record.validation_loss) add("", *record.validation_loss);
    for (const auto& [name, loss] : record.validation_losses) add(name, loss);
  }
  Json list = Json::array();
  for (const auto& [name, points] : sets)
    list.push_back({{"name", name}, {"steps", points.steps}, {"values", points.values}});
  return list;
}

Json scores_json(const std::vector<PageScores>& scores) {
  Json list = Json::array();
  for (const PageScores& score : scores) {
    Json steps = Json::array(), values = Json::array();
    for (const auto& [step, value] : score.points) steps.push_back(step), values.push_back(rounded(value));
    list.push_back({{"name", score.name}, {"steps", steps}, {"values", values}});
  }
  return list;
}

// A text for each time bin, with a character for each neuron: the digit of its count to base 36, at most "z".
Json bins_texts(const metrics::CountBins& bins) {
  constexpr std::string_view kDigits = "0123456789abcdefghijklmnopqrstuvwxyz";
  Json list = Json::array();
  for (const std::vector<uint8_t>& bin : bins) {
    std::string text;
    for (const uint8_t count : bin) text += kDigits[std::min<size_t>(count, kDigits.size() - 1)];
    list.push_back(text);
  }
  return list;
}

Json samples_json(const std::vector<PageSample>& samples) {
  Json list = Json::array();
  for (const PageSample& s : samples) {
    list.push_back({{"step", s.step}, {"prompt", s.prompt}, {"text", s.text}});
    if (!s.bins.made.empty())
      list.back().update({{"made", bins_texts(s.bins.made)},
                          {"before", bins_texts(s.bins.before)},
                          {"real", bins_texts(s.bins.real)}});
  }
  return list;
}

Json mixture_json(const std::vector<PageShare>& mixture) {
  Json list = Json::array();
  for (const PageShare& share : mixture)
    list.push_back({{"source", share.source},
                    {"planned", maybe_number(share.planned)},
                    {"realised", maybe_number(share.realised)},
                    {"sequences", share.sequences}});
  return list;
}

// What the plan and the metrics both say. The peak of memory is the process's, so that it has what was there before
// the plan's tensors.
Json plan_json(const PageRun& run) {
  Json plan = Json::object();
  int64_t peak_bytes = 0;
  for (const Record& record : run.history.records) peak_bytes = std::max(peak_bytes, record.memory_bytes);
  constexpr double kGiB = 1 << 30;
  if (run.plan.tokens_per_second) plan["tokens_per_second"] = *run.plan.tokens_per_second;
  if (run.plan.memory_bytes) {
    plan["memory_GiB"] = static_cast<double>(*run.plan.memory_bytes) / kGiB;
    plan["before_GiB"] = static_cast<double>(run.plan.before_bytes) / kGiB;
    if (peak_bytes > 0) plan["peak_GiB"] = static_cast<double>(peak_bytes) / kGiB;
  }
  return plan;
}

Json events_json(const metrics::History& history) {
  Json list = Json::array();
  for (const metrics::Event& event : history.events) {
    list.push_back({{"name", event.name},
                    {"step", event.step},
                    {"from_step", event.from_step},
                    {"reason", event.reason},
                    {"time", event.time}});
  }
  return list;
}

Json skipped_json(const std::vector<Record>& records) {
  Json list = Json::array();
  for (const Record& r : records)
    if (!r.skipped.empty()) list.push_back({{"step", r.step}, {"why", r.skipped}, {"time", r.time}});
  return list;
}

Json jobs_json(const std::vector<PageJobEvent>& jobs) {
  Json list = Json::array();
  for (const PageJobEvent& e : jobs)
    list.push_back({{"time", e.time}, {"job", e.job}, {"what", e.what}, {"reason", e.reason}});
  return list;
}

Json texts_json(const std::vector<NamedText>& texts) {
  Json list = Json::array();
  for (const auto& [name, text] : texts) list.push_back({name, text});
  return list;
}

// The figures of the overview.
Json totals_json(const PageRun& run) {
  const std::vector<Record>& records = run.history.records;
  std::optional<double> loss, validation_loss, mfu;
  double seconds = 0, tokens = 0, busy = 0;
  for (const Record& r : records) {
    if (r.loss) loss = r.loss;
    if (r.validation_loss) validation_loss = std::min(validation_loss.value_or(*r.validation_loss), *r.validation_loss);
    seconds += r.step_s;
    tokens += r.tokens_per_second * r.step_s;
    busy += r.mfu * r.step_s;
  }
  if (busy > 0) mfu = busy / seconds;
  const int64_t last_step = records.empty() ? 0 : records.back().step;
  const auto count = [&run](std::string_view name) {
    return std::count_if(run.history.events.begin(), run.history.events.end(),
                         [&](const metrics::Event& event) { return event.name == name; });
  };
  const bool ended = run.planned_steps > 0 && last_step >= run.planned_steps;
  return {{"state", records.empty() ? "no steps yet"
                    : ended         ? "finished"
                                    : "not finished"},
          {"last_step", last_step},
          {"planned_steps", run.planned_steps},
          {"loss", maybe_number(loss)},
          {"validation_loss", maybe_number(validation_loss)},
          {"total_tokens", records.empty() ? 0 : records.back().tokens},
          {"seconds", seconds},
          {"tokens_per_second", seconds > 0 ? Json(tokens / seconds) : Json(nullptr)},
          {"mfu", maybe_number(mfu)},
          {"restarts", count("resume")},
          {"rewinds", count("rewind")},
          {"repeated_steps", run.history.repeated_steps}};
}

Json run_json(const PageRun& run, int64_t width) {
  const std::vector<Record>& records = run.history.records;
  Json json = totals_json(run);
  json["name"] = run.name;
  json["notes"] = run.notes;
  json["bins"] = Json::object();
  for (const Chart& chart : kCharts) {
    const Bins bins = chart.value == nullptr ? Bins{} : binned(records, width, chart.value);
    if (!bins.empty()) json["bins"][chart.key] = bins_json(bins, width);
  }
  json["tokens"] = cumulated(records, width, [](const Record& r) { return static_cast<double>(r.tokens); });
  double seconds = 0;
  json["hours"] = cumulated(records, width, [&seconds](const Record& r) { return (seconds += r.step_s) / 3600; });
  json["validation"] = validation_json(records);
  json["scores"] = scores_json(run.scores);
  json["samples"] = samples_json(run.samples);
  json["plan"] = plan_json(run);
  json["mixture"] = mixture_json(run.mixture);
  json["events"] = events_json(run.history);
  json["jobs"] = jobs_json(run.jobs);
  json["skipped"] = skipped_json(records);
  if (!run.planned_lr.empty()) {
    Json steps = Json::array(), values = Json::array();
    for (const auto& [step, lr] : run.planned_lr) steps.push_back(step), values.push_back(rounded(lr));
    json["planned_lr"] = {{"steps", steps}, {"values", values}};
  }
  json["configuration"] = texts_json(run.configuration);
  json["origin"] = texts_json(run.origin);
  return json;
}

Json page_json(const RunPage& page) {
  int64_t last_step = 0;
  for (const PageRun& run : page.runs)
    if (!run.history.records.empty()) last_step = std::max(last_step, run.history.records.back().step);
  const int64_t width = bin_width(last_step);
  Json json = {
      {"title", page.title},    {"footer", fmt::format("Made by Hearth {}. Charts: dygraphs (MIT).", HEARTH_VERSION)},
      {"width", width},         {"charts", Json::array()},
      {"runs", Json::array()},  {"defaults", texts_json(page.defaults)},
      {"version", page.version}};
  for (const Chart& chart : kCharts)
    json["charts"].push_back({{"key", chart.key}, {"title", chart.title}, {"unit", chart.unit}});
  for (const PageRun& run : page.runs) json["runs"].push_back(run_json(run, width));
  return json;
}

// As the content of a <script>: no "<" may end it.
std::string for_script(const Json& json) {
  std::string text = json.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace), safe;
  for (const char c : text) c == '<' ? safe += "\\u003c" : safe += c;
  return safe;
}

// `connects`: the source with which the page may talk, for its content security policy.
std::string page_of(const RunPage& page, std::string_view connects) {
  std::string html = "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n";
  html += "<meta name=\"viewport\" content=\"width=device-width\">\n";
  // A browser then refuses to load anything else.
  html += fmt::format(
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'unsafe-inline'; "
      "style-src 'unsafe-inline'; img-src data:; connect-src {}\">\n",
      connects);
  html += fmt::format("<title>{}</title>\n", escaped_for_svg(page.title));
  html += fmt::format("<style>{}</style>\n<style>{}</style>\n", page_assets::kDygraphsStyle, page_assets::kStyle);
  html += fmt::format("</head><body data-live=\"{}\">\n<script>{}</script>\n", connects == "'none'" ? "no" : "yes",
                      page_assets::kDygraphs);
  html += fmt::format("<script type=\"application/json\" id=\"data\">{}</script>\n", for_script(page_json(page)));
  html += fmt::format("<script>{}</script>\n</body></html>\n", page_assets::kScript);
  return html;
}

}  // namespace

std::string run_page(const RunPage& page) { return page_of(page, "'none'"); }

std::string live_run_page(const RunPage& page) { return page_of(page, "'self'"); }

std::string run_page_data(const RunPage& page) {
  return page_json(page).dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

}  // namespace hearth::report
