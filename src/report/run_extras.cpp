// SPDX-License-Identifier: Apache-2.0
#include "report/run_extras.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string_view>

#include "base/error.h"
#include "base/quantity.h"
#include "config/derived.h"
#include "data/order/data_state.h"

namespace hearth::report {
namespace {

using nlohmann::json;

int64_t bytes_of(const json& plan, const char* name) {
  constexpr int64_t kMost = int64_t{1} << 60;  // two of them can be added
  const auto bytes = plan.at(name).get_ref<const int64_t&>();
  if (bytes < 0 || bytes > kMost) throw json::other_error::create(501, "not a number of bytes", &plan);
  return bytes;
}

// The shares of weights over a run of `tokens`; empty: the length is not known and the weights change.
std::vector<double> planned_shares(const config::RunConfig& config, int64_t tokens) {
  std::vector<std::vector<double>> weights(1);
  std::vector<int64_t> begins = {0};
  for (const config::DataSource& source : config.data.source) weights[0].push_back(source.weight);
  for (const config::DataSegment& segment : config.data.segment) {
    if (tokens > 0 && segment.from_tokens >= tokens) continue;
    weights.push_back(segment.weights);
    begins.push_back(segment.from_tokens);
  }
  if (weights.size() > 1 && tokens <= 0) return {};
  begins.push_back(std::max<int64_t>(tokens, 1));
  std::vector<double> shares(weights[0].size());
  for (size_t i = 0; i < weights.size(); ++i) {
    const double sum = std::accumulate(weights[i].begin(), weights[i].end(), 0.0);
    const double part = static_cast<double>(begins[i + 1] - begins[i]) / static_cast<double>(begins.back());
    if (weights[i].size() != shares.size() || sum <= 0) return {};
    for (size_t k = 0; k < shares.size(); ++k) shares[k] += part * weights[i][k] / sum;
  }
  return shares;
}

}  // namespace

void thin_out(std::vector<metrics::SampleText>& samples) {
  std::vector<int64_t> steps;
  for (const metrics::SampleText& sample : samples)
    if (steps.empty() || steps.back() != sample.step) steps.push_back(sample.step);
  const bool rasters = std::any_of(samples.begin(), samples.end(), [](const auto& s) { return !s.bins.made.empty(); });
  const size_t most = rasters ? kMostRasters : kMostSamples;
  if (samples.size() <= most || steps.empty()) return;
  const size_t each = std::max<size_t>(samples.size() / steps.size(), 1);
  const size_t keep = std::max<size_t>(most / each, 1), stride = (steps.size() + keep - 1) / keep;
  std::vector<int64_t> kept;
  for (size_t i = steps.size(); i-- > 0;)
    if ((steps.size() - 1 - i) % stride == 0) kept.push_back(steps[i]);
  std::erase_if(samples, [&kept](const metrics::SampleText& sample) {
    return !std::binary_search(kept.rbegin(), kept.rend(), sample.step);
  });
}

void add_scores(PageRun& run, const Path& scores_file) {
  if (!path_exists(scores_file)) return;
  int64_t damaged_lines = 0;
  try {
    metrics::for_each_whole_line(read_file(scores_file), [&](std::string_view line, int64_t) {
      if (line.empty()) return;
      try {
        const json score = json::parse(line);
        run.scores[score.at("name").get<std::string>()][score.at("step").get<int64_t>()] =
            score.at("value").get<double>();
      } catch (const json::exception&) {
        ++damaged_lines;
      }
    });
  } catch (const Error& e) {
    run.notes.push_back(e.message());
  }
  if (damaged_lines > 0)
    run.notes.push_back(fmt::format("scores.jsonl has {}, left out here", counted(damaged_lines, "damaged line")));
}

void add_plan(PageRun& run, const Path& plan_file) {
  if (!path_exists(plan_file)) return;
  try {
    const json plan = json::parse(read_file(plan_file));
    if (const auto rate = plan.find("tokens_per_second"); rate != plan.end() && rate->is_number() && *rate > 0)
      run.plan.tokens_per_second = rate->get<double>();
    run.plan.memory_bytes = bytes_of(plan, "memory_bytes");
    run.plan.before_bytes = bytes_of(plan, "before_bytes");
  } catch (const json::exception&) {
    run.plan = {};
    run.notes.push_back("plan.json is damaged, so that nothing is compared with the plan");
  } catch (const Error& e) {
    run.notes.push_back(e.message());
  }
}

void add_mixture(PageRun& run, const config::RunConfig& config, const std::optional<checkpoint::Manifest>& manifest) {
  const std::vector<config::DataSource>& sources = config.data.source;
  if (sources.size() < 2) return;
  for (const config::DataSource& source : sources) run.mixture.push_back({.source = source.path});
  if (config.data.weight_unit == config::WeightUnit::kTokens) {
    const std::vector<double> shares = planned_shares(config, run.planned_steps * config::tokens_per_step(config));
    for (size_t i = 0; i < shares.size(); ++i) run.mixture[i].planned = shares[i];
  }
  if (!manifest || config.data.weight_rule != config::WeightRule::kSlots) return;
  const auto state = manifest->states.find(data::kDataState);
  if (state == manifest->states.end()) return;
  try {
    const data::DataState fed = data::parse_data_state(state->second, manifest->dataset_hash, "the newest checkpoint");
    if (fed.sources.size() != sources.size() || fed.segments.empty()) return;
    const data::Mixture mixture(fed.segments);
    double all = 0;
    for (const metrics::StepRecord& record : run.history.records) {
      if (record.samples <= 0) continue;
      const uint64_t end = record.first_sample + static_cast<uint64_t>(record.samples);
      for (size_t i = 0; i < sources.size(); ++i) {
        const auto source = static_cast<int64_t>(i);
        run.mixture[i].sequences +=
            static_cast<double>(mixture.count(source, end) - mixture.count(source, record.first_sample));
      }
      all += static_cast<double>(record.samples);
    }
    if (all <= 0) return;
    for (PageShare& share : run.mixture) share.realised = share.sequences / all;
  } catch (const Error& e) {
    run.notes.push_back(fmt::format("its mixture of sources is not known: {}", e.message()));
  }
}

}  // namespace hearth::report
