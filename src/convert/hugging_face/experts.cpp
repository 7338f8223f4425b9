// SPDX-License-Identifier: Apache-2.0
#include "convert/hugging_face/experts.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "convert/hugging_face/field_values.h"

namespace hearth::convert {
namespace {

using Json = nlohmann::json;

// Every class with experts reads the first two, whichever it writes: transformers 4 and 5 differ in it.
constexpr const char* kCounts[] = {"num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"};
constexpr size_t kCountsOfAll = 2;
constexpr const char* kTopKs[] = {"num_experts_per_tok", "moe_k", "experts_per_token"};
constexpr const char *kWidth = "moe_intermediate_size", *kDense = "mlp_only_layers", *kStep = "decoder_sparse_step",
                     *kEnd = "moe_layer_end_index";

bool has(const Json& fields, const char* name) { return fields.contains(name) && !fields.at(name).is_null(); }

// The layers of a list are the first ones: their number.
int64_t first_layers(const Json& layers, int64_t num_layers, const std::function<void(const std::string&)>& refuse) {
  if (!layers.is_array() || std::ssize(layers) >= num_layers)
    refuse(fmt::format("{} = {} is no list of some layers", kDense, layers.dump()));
  for (int64_t layer = 0; layer < std::ssize(layers); ++layer)
    if (layers[static_cast<size_t>(layer)] != layer)
      refuse(fmt::format("{} = {}: Hearth computes models whose first layers have no experts", kDense, layers.dump()));
  return std::ssize(layers);
}

}  // namespace

void read_experts(const Json& fields, const config::HuggingFaceClass& type, config::Model& m,
                  const std::function<void(const std::string&)>& refuse) {
  const config::ExpertFields& e = type.experts;
  const auto known = [&](const char* name, bool is_known) {
    if (!is_known && has(fields, name)) refuse(fmt::format("field \"{}\" is not one of {}", name, type.model_type));
    return is_known;
  };
  for (size_t i = 0; i < std::size(kCounts); ++i)
    known(kCounts[i], e.exist() && (i < kCountsOfAll || e.count_field == kCounts[i]));
  known(kTopKs[1], e.top_k_field == kTopKs[1]);
  known(kTopKs[2], e.may_be_mxfp4);  // released gpt-oss has it, too
  known(kEnd, e.has_end_index);
  const bool has_width = known(kWidth, e.width > 0);
  const bool has_dense = known(kDense, e.has_dense_layers);
  known(kStep, e.has_dense_layers);
  if (!known(kTopKs[0], e.exist())) return;
  const auto size = [&](const char* name, int64_t missing) {
    return has(fields, name) ? size_in(fields.at(name), name, 1, refuse) : missing;
  };
  // The value of fields that mean the same.
  const auto size_of_any = [&](const auto& names, const std::string& own, int64_t missing) {
    const char* found = nullptr;
    for (const char* name : names) {
      if (!has(fields, name)) continue;
      if (found != nullptr && size(name, 0) != missing) refuse(fmt::format("{} and {} differ", found, name));
      missing = size(found = name, 0);
    }
    if (missing == 0) refuse(fmt::format("has no {}", own));
    return missing;
  };
  m.num_experts = size_of_any(kCounts, e.count_field, e.count);
  m.moe_top_k = size_of_any(kTopKs, e.top_k_field, e.top_k);
  if (has(fields, kEnd) && fields.at(kEnd) != -1 && size_in(fields.at(kEnd), kEnd, 0, refuse) < m.n_layers - 1)
    refuse(fmt::format("{} = {}: layers behind it have no experts", kEnd, fields.at(kEnd).dump()));
  if (has_width) m.moe_hidden_dim = size(kWidth, e.width);
  if (!has_dense) return;
  if (size(kStep, 1) != 1) refuse(fmt::format("{} = {}", kStep, fields.at(kStep).dump()));
  if (has(fields, kDense)) m.n_dense_layers = first_layers(fields.at(kDense), m.n_layers, refuse);
}

void write_experts(nlohmann::ordered_json& fields, const config::HuggingFaceClass& type, const config::Model& m) {
  const config::ExpertFields& e = type.experts;
  if (!e.exist()) return;
  fields[e.count_field] = m.num_experts;
  fields[e.top_k_field] = m.moe_top_k;
  if (e.has_end_index) fields[kEnd] = m.n_layers - 1;
  const int64_t width = m.moe_hidden_dim > 0 ? m.moe_hidden_dim : m.hidden_dim;
  fields[e.width > 0 ? kWidth : "intermediate_size"] = width;
  const bool is_field = std::any_of(type.keys.begin(), type.keys.end(),
                                    [](const config::FieldKey& field) { return field.key == "n_dense_layers"; });
  if (is_field) return;
  if (!e.has_dense_layers) {
    if (m.n_dense_layers == 0) return;
    throw user_error(
        fmt::format("model.n_dense_layers = {} has no home in {}'s format", m.n_dense_layers, type.model_type), {},
        "keep the model native");
  }
  fields[kStep] = 1;
  std::vector<int64_t> dense;
  for (int64_t layer = 0; layer < m.n_dense_layers; ++layer) dense.push_back(layer);
  fields[kDense] = dense;
}

}  // namespace hearth::convert
