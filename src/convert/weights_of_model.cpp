#include "convert/weights_of_model.h"

#include <fmt/format.h>

#include <unordered_map>

#include "convert/names.h"
#include "formats/dcp.h"
#include "plan/parameters.h"

namespace hearth::convert {

std::vector<std::string> weight_problems(const config::Model& model, std::span<const mesh::TensorInfo> tensors) {
  // A list of the parameters of a billion layers would take all memory.
  if (model.n_layers > std::ssize(tensors))
    return {fmt::format("{} layers cannot be in {} tensors", model.n_layers, tensors.size())};
  const plan::ParameterPlan plan = plan::parameter_plan(plan::model_shape(model, 0));
  const auto plain = [](std::string_view name) { return name.starts_with("model.") ? name.substr(6) : name; };
  std::unordered_map<std::string_view, const mesh::TensorInfo*> by_name;
  for (const mesh::TensorInfo& tensor : tensors) by_name.emplace(plain(tensor.name), &tensor);
  std::vector<std::string> problems;
  for (const plan::Parameter& p : plan.parameters) {
    const auto found = by_name.find(p.name);
    if (found == by_name.end())
      problems.push_back(fmt::format("{}: missing", p.name));
    else if (found->second->shape != p.shape || !is_floating_point(found->second->dtype))
      problems.push_back(fmt::format("{}: {} {}, expected {}", p.name, dtype_name(found->second->dtype),
                                     formats::format_shape(found->second->shape), formats::format_shape(p.shape)));
  }
  for (const mesh::TensorInfo& tensor : tensors) {
    const std::string_view name = plain(tensor.name);
    const bool tied_copy = model.enable_weight_tying && name == "output.weight";
    if (!is_training_state(name) && !tied_copy && plan.find(std::string(name)) < 0)
      problems.push_back(fmt::format("{}: the model has no such weight", tensor.name));
  }
  return problems;
}

}  // namespace hearth::convert
