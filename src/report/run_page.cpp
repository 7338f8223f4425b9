// SPDX-License-Identifier: Apache-2.0
#include "report/run_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "report/bins.h"
#include "report/page_assets.h"
#include "report/svg.h"

namespace hearth::report {
namespace {

using Json = nlohmann::ordered_json;
using metrics::StepRecord;

struct Chart {
  std::string key, title, unit;
  std::function<std::optional<double>(const StepRecord& record)> value;
};

double in_GiB(int64_t bytes) { return static_cast<double>(bytes) / (1 << 30); }

std::optional<double> only_if(bool is_measured, double value) {
  return is_measured ? std::optional(value) : std::nullopt;
}

// "validation" and "scores" have points of their own.
std::vector<Chart> charts() {
  std::vector<Chart> all = {
      {"loss", "Training loss", "nats a token", [](const StepRecord& r) { return r.loss; }},
      {"validation", "Validation loss", "nats a token", nullptr},
      {"scores", "Scores", "", nullptr},
      {"grad_norm", "Gradient norm, before clipping", "", [](const StepRecord& r) { return r.grad_norm; }},
      {"lr", "Learning rate", "", [](const StepRecord& r) { return r.lr; }},
      {"tokens_per_second", "Throughput", "tokens/s",
       [](const StepRecord& r) { return only_if(r.step_s > 0, r.tokens_per_second); }},
      {"mfu", "Model FLOPs utilisation", "%", [](const StepRecord& r) { return only_if(r.mfu > 0, 100 * r.mfu); }},
      {"step_s", "Time of a step", "s", [](const StepRecord& r) { return only_if(r.step_s > 0, r.step_s); }},
      {"data_wait", "Share of a step that waits for data", "%",
       [](const StepRecord& r) { return only_if(r.step_s > 0, 100 * r.data_wait_share()); }},
      {"memory", "Memory, at most so far", "GiB",
       [](const StepRecord& r) { return only_if(r.memory_bytes > 0, in_GiB(r.memory_bytes)); }},
  };
  for (const metrics::LossPart& part : metrics::kLossParts)
    all.push_back({part.name, part.title, "", [name = part.name](const StepRecord& r) {
                     const auto it = r.loss_parts.find(name);
                     return it == r.loss_parts.end() ? std::nullopt : std::optional(it->second);
                   }});
  return all;
}

// Six digits show a curve; all of them would double the page.
Json rounded(double value) {
  if (!std::isfinite(value)) return nullptr;
  return std::strtod(fmt::format("{:.6g}", value).c_str(), nullptr);
}
Json maybe_number(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

// `json_of` each item.
template <class Items, class ToJson>
Json list_of(const Items& items, const ToJson& json_of) {
  Json list = Json::array();
  for (const auto& item : items) list.push_back(json_of(item));
  return list;
}
Json rounded_list(const std::vector<double>& values) {
  return list_of(values, [](double value) { return rounded(value); });
}

Json bins_json(const Bins& bins, int64_t width) {
  Json json = {{"first", bins.first}, {"mean", rounded_list(bins.mean)}};
  if (width > 1) json.update({{"low", rounded_list(bins.low)}, {"high", rounded_list(bins.high)}});
  return json;
}

// At the last step of each bin, from the first bin on.
Json cumulated(const std::vector<StepRecord>& records, int64_t width,
               const std::function<double(const StepRecord&)>& value) {
  std::vector<double> values;
  for (const StepRecord& record : records) {
    if (record.step == 0) continue;
    values.resize(static_cast<size_t>((record.step - 1) / width + 1), values.empty() ? 0 : values.back());
    values.back() = value(record);
  }
  return rounded_list(values);
}

// The load of the most loaded expert of each layer that has some.
Json experts_json(const std::vector<StepRecord>& records, int64_t width) {
  std::set<int64_t> layers;
  for (const StepRecord& record : records)
    for (const metrics::ExpertLoad& load : record.expert_loads) layers.insert(load.layer);
  return list_of(layers, [&](int64_t layer) {
    Json json = {{"layer", layer}};
    json.update(bins_json(binned(records, width,
                                 [layer](const StepRecord& record) -> std::optional<double> {
                                   for (const metrics::ExpertLoad& load : record.expert_loads)
                                     if (load.layer == layer) return load.most;
                                   return std::nullopt;
                                 }),
                          /*width=*/1));
    return json;
  });
}

Json points_json(const PagePoints& points) {
  return {{"steps", list_of(points, [](const auto& point) { return Json(point.first); })},
          {"values", list_of(points, [](const auto& point) { return rounded(point.second); })}};
}

Json named_points_json(const std::map<std::string, PagePoints>& sets) {
  return list_of(sets, [](const auto& set) {
    Json json = {{"name", set.first}};
    json.update(points_json(set.second));
    return json;
  });
}

Json validation_json(const std::vector<StepRecord>& records) {
  std::map<std::string, PagePoints> sets;  // "": all together
  for (const StepRecord& record : records) {
    if (record.validation_loss) sets[""][record.step] = *record.validation_loss;
    for (const auto& [name, loss] : record.validation_losses) sets[name][record.step] = loss;
  }
  return named_points_json(sets);
}

// A text for each time bin, with a character for each neuron: the digit of its count to base 36, at most "z".
Json bins_texts(const metrics::CountBins& bins) {
  constexpr std::string_view kDigits = "0123456789abcdefghijklmnopqrstuvwxyz";
  return list_of(bins, [&](const std::vector<uint8_t>& bin) {
    std::string text;
    for (const uint8_t count : bin) text += kDigits[std::min<size_t>(count, kDigits.size() - 1)];
    return text;
  });
}

Json sample_json(const metrics::SampleText& s) {
  Json json = {{"step", s.step}, {"prompt", s.prompt}, {"text", s.text}};
  if (!s.bins.made.empty())
    json.update(
        {{"made", bins_texts(s.bins.made)}, {"before", bins_texts(s.bins.before)}, {"real", bins_texts(s.bins.real)}});
  return json;
}

Json share_json(const PageShare& share) {
  return {{"source", share.source},
          {"planned", maybe_number(share.planned)},
          {"realised", maybe_number(share.realised)},
          {"sequences", share.sequences}};
}

// What the plan and the metrics both say. The peak of memory is the process's, so that it has what was there before
// the plan's tensors.
Json plan_json(const PageRun& run) {
  Json plan = Json::object();
  int64_t peak_bytes = 0;
  for (const StepRecord& record : run.history.records) peak_bytes = std::max(peak_bytes, record.memory_bytes);
  if (run.plan.tokens_per_second) plan["tokens_per_second"] = *run.plan.tokens_per_second;
  if (run.plan.memory_bytes) {
    plan["memory_GiB"] = in_GiB(*run.plan.memory_bytes);
    plan["before_GiB"] = in_GiB(run.plan.before_bytes);
    if (peak_bytes > 0) plan["peak_GiB"] = in_GiB(peak_bytes);
  }
  return plan;
}

Json event_json(const metrics::Event& event) {
  return {{"name", event.name},
          {"step", event.step},
          {"from_step", event.from_step},
          {"reason", event.reason},
          {"time", event.time}};
}

Json job_json(const PageJobEvent& event) {
  return {{"time", event.time}, {"job", event.job}, {"what", event.what}, {"reason", event.reason}};
}

Json skipped_json(const std::vector<StepRecord>& records) {
  Json list = Json::array();
  for (const StepRecord& r : records)
    if (!r.skipped.empty()) list.push_back({{"step", r.step}, {"why", r.skipped}, {"time", r.time}});
  return list;
}

Json texts_json(const std::vector<NamedText>& texts) {
  return list_of(texts, [](const NamedText& named) { return Json::array({named.first, named.second}); });
}

// The figures of the overview.
Json totals_json(const PageRun& run) {
  const std::vector<StepRecord>& records = run.history.records;
  std::optional<double> loss, validation_loss, mfu;
  double seconds = 0, tokens = 0, busy = 0;
  for (const StepRecord& r : records) {
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
  const std::vector<StepRecord>& records = run.history.records;
  Json json = totals_json(run);
  json["name"] = run.name;
  json["notes"] = run.notes;
  json["bins"] = Json::object();
  for (const Chart& chart : charts()) {
    const Bins bins = chart.value == nullptr ? Bins{} : binned(records, width, chart.value);
    if (!bins.empty()) json["bins"][chart.key] = bins_json(bins, width);
  }
  json["tokens"] = cumulated(records, width, [](const StepRecord& r) { return static_cast<double>(r.tokens); });
  double seconds = 0;
  json["hours"] = cumulated(records, width, [&seconds](const StepRecord& r) { return (seconds += r.step_s) / 3600; });
  json["validation"] = validation_json(records);
  json["scores"] = named_points_json(run.scores);
  json["samples"] = list_of(run.history.samples, sample_json);
  json["plan"] = plan_json(run);
  json["mixture"] = list_of(run.mixture, share_json);
  json["experts"] = experts_json(records, width);
  json["events"] = list_of(run.history.events, event_json);
  json["jobs"] = list_of(run.jobs, job_json);
  json["skipped"] = skipped_json(records);
  if (!run.planned_lr.empty()) json["planned_lr"] = points_json(run.planned_lr);
  json["configuration"] = texts_json(run.configuration);
  json["origin"] = texts_json(run.origin);
  return json;
}

Json page_json(const RunPage& page) {
  int64_t last_step = 0;
  for (const PageRun& run : page.runs)
    if (!run.history.records.empty()) last_step = std::max(last_step, run.history.records.back().step);
  const int64_t width = bin_width(last_step);
  return {{"title", page.title},
          {"footer", fmt::format("Made by Hearth {}. Charts: dygraphs (MIT).", HEARTH_VERSION)},
          {"width", width},
          {"charts", list_of(charts(),
                             [](const Chart& chart) -> Json {
                               return {{"key", chart.key}, {"title", chart.title}, {"unit", chart.unit}};
                             })},
          {"runs", list_of(page.runs, [width](const PageRun& run) { return run_json(run, width); })},
          {"defaults", texts_json(page.defaults)},
          {"version", page.version}};
}

// `connects`: the source with which the page may talk, for its content security policy. A browser then refuses to load
// anything else.
std::string page_of(const RunPage& page, std::string_view connects) {
  std::string data;  // the content of a <script>: no "<" may end it
  for (const char c : run_page_data(page)) c == '<' ? data += "\\u003c" : data += c;
  return fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'unsafe-inline'; "
      "style-src 'unsafe-inline'; img-src data:; connect-src {}\">\n"
      "<title>{}</title>\n<style>{}</style>\n<style>{}</style>\n</head><body data-live=\"{}\">\n<script>{}</script>\n"
      "<script type=\"application/json\" id=\"data\">{}</script>\n<script>{}</script>\n</body></html>\n",
      connects, escaped_for_svg(page.title), page_assets::kDygraphsStyle, page_assets::kStyle,
      connects == "'none'" ? "no" : "yes", page_assets::kDygraphs, data, page_assets::kScript);
}

}  // namespace

std::string run_page(const RunPage& page) { return page_of(page, "'none'"); }

std::string live_run_page(const RunPage& page) { return page_of(page, "'self'"); }

std::string run_page_data(const RunPage& page) {
  return page_json(page).dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

}  // namespace hearth::report
