#include "run/initial_load.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error_list.h"
#include "base/text.h"
#include "convert/names.h"
#include "plan/name_pattern.h"
#include "plan/tensor_names.h"

namespace hearth::run {
namespace {

std::string shape_text(const std::vector<int64_t>& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

constexpr size_t kWeightsNamed = 12;

std::string listed(const std::vector<std::string>& names) { return join_first(names, kWeightsNamed); }

// One line for each parameter that should be taken over but does not fit.
std::vector<std::string> misfits(const plan::ParameterPlan& plan, const checkpoint::Reader& reader,
                                 const InitialLoad& initial_load) {
  std::vector<std::string> lines;
  for (size_t i = 0; i < plan.parameters.size(); ++i) {
    const plan::Parameter& p = plan.parameters[i];
    if (initial_load.is_fresh(i)) continue;
    const mesh::TensorInfo* found = reader.find(plan::weight_name(p.name));
    if (found == nullptr)
      lines.push_back(fmt::format("{}: missing in the checkpoint", p.name));
    else if (found->shape != p.shape)
      lines.push_back(fmt::format("{}: {} in the checkpoint, {} in the model", p.name, shape_text(found->shape),
                                  shape_text(p.shape)));
    else if (!is_floating_point(found->dtype))
      lines.push_back(fmt::format("{}: {} in the checkpoint", p.name, dtype_name(found->dtype)));
  }
  return lines;
}

void require_fit(const plan::ParameterPlan& plan, const checkpoint::Reader& reader, const InitialLoad& initial_load) {
  const std::vector<std::string> problems = misfits(plan, reader, initial_load);
  if (problems.empty()) return;
  throw user_error(
      fmt::format("{} does not fit the model:\n    {}", reader.folder().string(),
                  join_first(problems, kWeightsNamed, "\n    ")),
      "every weight of the model must be in the checkpoint or in checkpoint.fresh",
      fmt::format("give [model] the checkpoint's shape (`hearth inspect --model {}` prints the section), or name new "
                  "weights in checkpoint.fresh",
                  reader.folder().string()))
      .about("checkpoint.initial_load_path");
}

// Weights of the checkpoint that are not parameters of the model.
std::vector<std::string> left_over(const plan::ParameterPlan& plan, const checkpoint::Reader& reader) {
  std::vector<std::string> names;
  for (const mesh::TensorInfo& tensor : reader.tensors()) {
    std::string_view name = tensor.name;
    if (name.starts_with("model.")) name.remove_prefix(6);
    if (!convert::is_training_state(name) && plan.find(std::string(name)) < 0) names.emplace_back(name);
  }
  return names;
}

}  // namespace

bool InitialLoad::new_vocabulary(const plan::ParameterPlan& plan) const {
  for (size_t i = 0; i < plan.parameters.size(); ++i) {
    const std::string& name = plan.parameters[i].name;
    if ((name == "tok_embeddings.weight" || name == "output.weight") && !is_fresh(i)) return false;
  }
  return true;
}

InitialLoad plan_initial_load(const config::Checkpoint& keys, const plan::ParameterPlan& plan,
                              const checkpoint::Reader& reader) {
  InitialLoad initial_load;
  ErrorList errors;
  if (errors.attempt([&] { initial_load.fresh = plan::matching_parameters(keys.fresh, plan, "checkpoint.fresh"); }))
    errors.attempt([&] { require_fit(plan, reader, initial_load); });
  std::vector<std::string> dropped, unnamed;
  std::vector<bool> used(keys.drop.size());
  for (const std::string& name : left_over(plan, reader)) {
    bool is_named = false;
    for (size_t i = 0; i < keys.drop.size(); ++i) {
      if (!plan::matches(keys.drop[i], name)) continue;
      used[i] = true;
      is_named = true;
    }
    (is_named ? dropped : unnamed).push_back(name);
  }
  errors.attempt([&] {
    if (unnamed.empty()) return;
    throw user_error(fmt::format("{} has weights that the model lacks: {}", reader.folder().string(), listed(unnamed)),
                     "weights are never dropped silently", "name them in checkpoint.drop")
        .about("checkpoint.initial_load_path");
  });
  for (size_t i = 0; i < used.size(); ++i) {
    errors.attempt([&] {
      if (used[i]) return;
      throw user_error(fmt::format("checkpoint.drop: \"{}\" matches no weight that the model lacks", keys.drop[i]),
                       fmt::format("of {}", reader.folder().string()), "remove it; `hearth inspect` lists the weights")
          .about("checkpoint.drop");
    });
  }
  errors.throw_if_any("[checkpoint]");
  std::vector<std::string> fresh;
  for (size_t i = 0; i < plan.parameters.size(); ++i) {
    if (initial_load.is_fresh(i)) fresh.push_back(plan.parameters[i].name);
  }
  if (!fresh.empty()) initial_load.notes.push_back(fmt::format("begins with initial values: {}", listed(fresh)));
  if (!dropped.empty()) initial_load.notes.push_back(fmt::format("left out of the checkpoint: {}", listed(dropped)));
  return initial_load;
}

}  // namespace hearth::run
