// SPDX-License-Identifier: Apache-2.0
// What targets have in common.
#include <fmt/format.h>

#include <optional>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "config/derived.h"
#include "convert/target.h"
#include "plan/optimizer/parameter_groups.h"
#include "plan/parameters.h"
#include "plan/tensor_names.h"

namespace hearth::convert {
namespace {

constexpr const char* kWeightsAlone = "leave out --resume to write the weights alone";

}  // namespace

void require_ranks(const plan::ModelShape& s, int64_t ranks, bool has_copies) {
  const bool shares_keys = ranks > 0 && (s.G % ranks == 0 || (has_copies && ranks % s.G == 0));
  if (!shares_keys || s.H % ranks != 0 || s.F() % ranks != 0 || s.V % ranks != 0)
    throw user_error(fmt::format("--tensor-parallel {} does not divide the model", ranks),
                     fmt::format("it has {} heads, {} keys, width {} and {} tokens", s.H, s.G, s.F(), s.V),
                     has_copies ? "give a divisor of all four; a multiple of the keys is allowed, too"
                                : "give a divisor of all four");
}

void note_missing_tokenizer(const TargetModel& model, std::string_view program, std::vector<std::string>& notes) {
  if (model.tokenizer != nullptr && model.tokenizer->kind() != "ids")
    notes.push_back(fmt::format("no tokenizer is written: {}'s folders have no home for it", program));
}

void require_moments(const TargetModel& model, const std::vector<std::string>& parameters, std::string_view program) {
  std::vector<std::string> missing;
  for (const std::string& parameter : parameters) {
    if (model.reader.find(plan::exp_avg_name(parameter)) == nullptr ||
        model.reader.find(plan::exp_avg_sq_name(parameter)) == nullptr)
      missing.push_back(parameter);
  }
  if (missing.empty()) return;
  throw user_error(
      fmt::format("{} has no moments of AdamW for {}", model.reader.folder().string(), join_first(missing, 1)),
      fmt::format("{} asks for those of every weight; frozen weights and Muon's matrices have none", program),
      kWeightsAlone);
}

plan::LrSchedule schedule_of(const TargetModel& model) {
  const config::RunConfig& run = *model.run;
  if (run.training.steps == 0 && run.training.tokens == 0)
    throw user_error(fmt::format("{}: the next step's learning rate is not known", model.origin),
                     "training.epochs gives the length, and only the data have the number of steps", kWeightsAlone);
  return plan::lr_schedule(run.lr_scheduler, run.optimizer.lr, config::total_steps(run, 0));
}

double next_rate(const TargetModel& model) {
  if (model.training->next_lr) return *model.training->next_lr;
  return plan::learning_rate(schedule_of(model), model.training->step + 1);
}

std::vector<std::string> trained_weights(const TargetModel& model) {
  std::vector<std::string> names;
  for (const Transfer& tensor : model.tensors) {
    if (model.reader.find(plan::exp_avg_name(tensor.from)) != nullptr) names.push_back(tensor.from);
  }
  return names;
}

std::vector<Transfer> in_float32(const TargetModel& model, std::string (*name)(const std::string& parameter)) {
  std::vector<Transfer> tensors;
  for (const std::string& parameter : trained_weights(model)) {
    const mesh::TensorInfo* weight = model.reader.find(parameter);
    tensors.push_back({name(parameter), {parameter, DType::kFloat32, weight->shape}});
  }
  return tensors;
}

int64_t common_updates(const TargetModel& model, std::span<const std::string> parameters, const std::string& why) {
  const int64_t updates = updates_of(model.reader, *model.training, parameters.front());
  for (const std::string& parameter : parameters) {
    if (const int64_t other = updates_of(model.reader, *model.training, parameter); other != updates)
      throw user_error(fmt::format("{}: the moments of {} have seen {} updates, and those of {} {}",
                                   model.reader.folder().string(), parameters.front(), updates, parameter, other),
                       why, kWeightsAlone);
  }
  return updates;
}

int64_t updates_of_all_weights(const TargetModel& model, std::string_view program) {
  std::vector<std::string> parameters;
  for (const plan::Parameter& p : plan::parameter_plan(plan::model_shape(model.description.model, 0)).parameters)
    parameters.push_back(p.name);
  require_moments(model, parameters, program);
  return common_updates(model, parameters, fmt::format("{} has one count for all weights", program));
}

Decay decay_of(const TargetModel& model, std::string_view program) {
  const plan::ParameterPlan plan = plan::parameter_plan(plan::model_shape(model.description.model, 0));
  const std::vector<plan::ParameterSettings> settings = plan::parameter_settings(model.run->optimizer, plan);
  std::optional<double> of_matrices, of_norms;
  for (size_t i = 0; i < settings.size(); ++i) {
    const plan::Parameter& parameter = plan.parameters[i];
    std::optional<double>& decay = parameter.shape.size() > 1 ? of_matrices : of_norms;
    if (settings[i].lr_factor != 1 || (decay && *decay != settings[i].weight_decay))
      throw user_error(
          fmt::format("the optimizer's settings of {} have no home in {}'s state", parameter.name, program),
          "it has one rate for all weights, one decay for matrices and one for norms",
          "train on with Hearth, or leave out --resume to write the weights alone");
    decay = settings[i].weight_decay;
  }
  return {of_matrices.value_or(0), of_norms.value_or(0)};
}

}  // namespace hearth::convert
