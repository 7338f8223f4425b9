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

constexpr const char* kCounts[] = {"num_experts", "num_local_experts", "n_routed_experts"};
constexpr const char *kTopK = "num_experts_per_tok", *kWidth = "moe_intermediate_size", *kDense = "mlp_only_layers",
                     *kStep = "decoder_sparse_step";

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
  for (const char* count : kCounts)
    known(count, e.exist() && (std::string_view(count) != kCounts[2] || e.count_field == count));
  const bool has_width = known(kWidth, e.width > 0);
  const bool has_dense = known(kDense, e.has_dense_layers);
  known(kStep, e.has_dense_layers);
  if (!known(kTopK, e.exist())) return;
  const auto size = [&](const char* name, int64_t missing) {
    return has(fields, name) ? size_in(fields.at(name), name, 1, refuse) : missing;
  };
  // transformers 4 and 5 call it differently, and each of their classes reads both.
  m.num_experts = e.count;
  const char* found = nullptr;
  for (const char* count : kCounts) {
    if (!has(fields, count)) continue;
    if (found != nullptr && size(count, 0) != m.num_experts) refuse(fmt::format("{} and {} differ", found, count));
    m.num_experts = size(found = count, 0);
  }
  m.moe_top_k = size(kTopK, e.top_k);
  if (m.num_experts == 0) refuse(fmt::format("has no {}", e.count_field));
  if (m.moe_top_k == 0) refuse(fmt::format("has no {}", kTopK));
  if (has_width) m.moe_hidden_dim = size(kWidth, e.width);
  if (!has_dense) return;
  if (size(kStep, 1) != 1) refuse(fmt::format("{} = {}", kStep, fields.at(kStep).dump()));
  if (has(fields, kDense)) m.n_dense_layers = first_layers(fields.at(kDense), m.n_layers, refuse);
}

void write_experts(nlohmann::ordered_json& fields, const config::HuggingFaceClass& type, const config::Model& m) {
  const config::ExpertFields& e = type.experts;
  if (!e.exist()) return;
  fields[e.count_field] = m.num_experts;
  fields[kTopK] = m.moe_top_k;
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
