// SPDX-License-Identifier: Apache-2.0
#include "data/order/data_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"

namespace hearth::data {
namespace {

using Json = nlohmann::ordered_json;

bool makes_sense(const DataState& state) {
  const auto& segments = state.segments;
  if (state.sources.empty() || segments.empty() || segments.front().first_sample != 0) return false;
  for (size_t i = 0; i < segments.size(); ++i) {
    const auto& weights = segments[i].weights;
    const bool shares = std::ranges::all_of(weights, [](double w) { return w >= 0; }) &&
                        std::ranges::any_of(weights, [](double w) { return w > 0; });
    const bool follows = i == 0 || segments[i].first_sample > segments[i - 1].first_sample;
    if (!shares || !follows || weights.size() != state.sources.size()) return false;
  }
  return true;
}

// get_ref, because get<int64_t>() also takes 1.5 and 1e300.
DataState parse_fields(const Json& j, const std::string& dataset) {
  DataState state;
  state.seed = j.at("seed").get_ref<const uint64_t&>();
  state.next_sample = j.at("next_sample").get_ref<const uint64_t&>();
  state.order_version = j.contains("order_version") ? j.at("order_version").get_ref<const int64_t&>() : 1;
  if (!j.contains("sources")) {
    state.sources = {dataset};
    state.segments = {{0, {1}}};
    return state;
  }
  state.sources = j.at("sources").get<std::vector<std::string>>();
  if (j.contains("order_samples")) state.order_samples = j.at("order_samples").get_ref<const uint64_t&>();
  for (const Json& segment : j.at("segments"))
    state.segments.push_back(
        {segment.at("first_sample").get<uint64_t>(), segment.at("weights").get<std::vector<double>>()});
  return state;
}

}  // namespace

std::string format_data_state(const DataState& state) {
  Json j = {{"seed", state.seed}, {"next_sample", state.next_sample}, {"order_version", state.order_version}};
  if (!state.sources.empty()) j["sources"] = state.sources;
  for (const MixtureSegment& segment : state.segments)
    j["segments"].push_back({{"first_sample", segment.first_sample}, {"weights", segment.weights}});
  if (state.order_samples > 0) j["order_samples"] = state.order_samples;
  return j.dump();
}

DataState parse_data_state(std::string_view json, const std::string& dataset, const std::string& origin) {
  try {
    DataState state = parse_fields(Json::parse(json), dataset);
    if (!makes_sense(state))
      throw damaged(fmt::format("{} is damaged", origin), "the segments of its mixture contradict each other");
    return state;
  } catch (const nlohmann::json::exception& e) {
    throw damaged(fmt::format("{} is damaged", origin), e.what());
  }
}

}  // namespace hearth::data
