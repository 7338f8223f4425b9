// SPDX-License-Identifier: Apache-2.0
#include "convert/weights_of_model.h"

#include <fmt/format.h>

#include <unordered_map>

#include "base/text.h"
#include "config/families.h"
#include "convert/names.h"
#include "formats/dcp.h"
#include "plan/parameters.h"

namespace hearth::convert {
namespace {

constexpr size_t kProblemsShown = 4;  // of each sort

}  // namespace

std::vector<std::string> WeightProblems::all() const {
  std::vector<std::string> lines = missing;
  lines.insert(lines.end(), unfitting.begin(), unfitting.end());
  lines.insert(lines.end(), unknown.begin(), unknown.end());
  return lines;
}

std::string WeightProblems::summary() const {
  std::vector<std::string> sorts;
  for (const std::vector<std::string>* sort : {&unknown, &missing, &unfitting}) {
    if (!sort->empty()) sorts.push_back(join_first(*sort, kProblemsShown));
  }
  return join(sorts, "; ");
}

WeightProblems weight_problems(const config::Model& model, std::span<const mesh::TensorInfo> tensors, Kind names) {
  WeightProblems problems;
  // A list of the parameters of a billion layers would take all memory.
  if (model.n_layers > std::ssize(tensors)) {
    problems.missing = {fmt::format("{} layers cannot be in {} tensors", model.n_layers, tensors.size())};
    return problems;
  }
  const plan::ParameterPlan plan = plan::parameter_plan(plan::model_shape(model, 0));
  const std::string_view family = config::nearest_family(model).name;
  const auto stored_name = [&](const std::string& ours) {
    if (names == Kind::kHuggingFace) return to_hugging_face(ours, family).value_or(ours);
    if (names == Kind::kTorchtitan) return to_torchtitan(ours).value_or(ours);
    return ours;
  };
  std::unordered_map<std::string_view, const mesh::TensorInfo*> by_name;
  for (const mesh::TensorInfo& tensor : tensors) by_name.emplace(without_model(tensor.name), &tensor);
  for (const plan::Parameter& p : plan.parameters) {
    const auto found = by_name.find(p.name);
    if (found == by_name.end())
      problems.missing.push_back(fmt::format("{}: missing", stored_name(p.name)));
    else if (found->second->shape != p.shape || !is_floating_point(found->second->dtype))
      problems.unfitting.push_back(fmt::format(
          "{}: {} {}, expected {}{}", stored_name(p.name), dtype_name(found->second->dtype),
          formats::format_shape(found->second->shape),
          is_floating_point(found->second->dtype) ? "" : "floating-point numbers ", formats::format_shape(p.shape)));
  }
  for (const mesh::TensorInfo& tensor : tensors) {
    const std::string_view name = without_model(tensor.name);
    const bool tied_copy = model.enable_weight_tying && name == kOutput;
    if (!is_training_state(name) && !tied_copy && plan.find(std::string(name)) < 0)
      problems.unknown.push_back(fmt::format("{}: the model has no such weight", stored_name(tensor.name)));
  }
  return problems;
}

}  // namespace hearth::convert
