// SPDX-License-Identifier: Apache-2.0
#include "convert/initial_load.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/error_list.h"
#include "base/text.h"
#include "config/families.h"
#include "config/load.h"
#include "config/resume.h"
#include "convert/names.h"
#include "plan/name_pattern.h"
#include "plan/tensor_names.h"

namespace hearth::convert {
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
    const std::string_view name = without_model(tensor.name);
    if (!is_training_state(name) && plan.find(std::string(name)) < 0) names.emplace_back(name);
  }
  return names;
}

// The configuration of the run that wrote the weights. Another program's files describe their model alone: the other
// keys are those of `ours`. nullopt: the files say nothing.
std::optional<config::RunConfig> described_run(const Source& source, const config::RunConfig& ours) {
  if (source.reader.has_manifest())
    return config::from_toml_text(source.reader.manifest().config_toml,
                                  (source.reader.folder() / checkpoint::kManifestFile).string(), ".");
  if (!source.description) return std::nullopt;
  config::RunConfig described = ours;
  described.model = source.description->model;
  described.objective.kind = source.description->objective;
  if (source.description->mask) described.objective.mask_id = *source.description->mask;
  return described;
}

}  // namespace

bool InitialLoad::new_vocabulary(const plan::ParameterPlan& plan) const {
  for (size_t i = 0; i < plan.parameters.size(); ++i) {
    const std::string& name = plan.parameters[i].name;
    if ((name == kEmbedding || name == kOutput) && !is_fresh(i)) return false;
  }
  return true;
}

InitialLoad plan_initial_load(const config::Checkpoint& keys, const plan::ParameterPlan& plan,
                              const checkpoint::Reader& reader) {
  InitialLoad initial_load;
  ErrorList errors;
  if (errors.attempt([&] { initial_load.fresh = plan::matching_parameters(keys.fresh, plan, "checkpoint.fresh"); }))
    errors.attempt([&] { require_fit(plan, reader, initial_load); });
  const std::vector<std::string> others = left_over(plan, reader);
  std::vector<std::string> dropped, unnamed;
  for (const std::string& name : others) {
    const bool is_named = std::ranges::any_of(keys.drop, [&](const auto& key) { return plan::matches(key, name); });
    (is_named ? dropped : unnamed).push_back(name);
  }
  errors.attempt([&] {
    if (unnamed.empty()) return;
    throw user_error(fmt::format("{} has weights that the model lacks: {}", reader.folder().string(), listed(unnamed)),
                     "weights are never dropped silently", "name them in checkpoint.drop")
        .about("checkpoint.initial_load_path");
  });
  for (const std::string& key : keys.drop) {
    errors.attempt([&] {
      if (std::ranges::any_of(others, [&](const auto& name) { return plan::matches(key, name); })) return;
      throw user_error(fmt::format("checkpoint.drop: \"{}\" matches no weight that the model lacks", key),
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

namespace {

// Another mask, where both sides name one, or logits of another position.
bool changes_masks(const config::Difference& d) {
  return d.name == "objective.shift_logits" || (d.name == "objective.mask_id" && d.before != "-1" && d.after != "-1") ||
         (d.name == "objective.mask_token" && d.before != "\"\"" && d.after != "\"\"");
}

}  // namespace

std::vector<std::string> check_same_model(const Source& source, const config::RunConfig& ours) {
  const std::optional<config::RunConfig> theirs = described_run(source, ours);
  if (!theirs) return {};
  const plan::ModelShape their_shape = plan::model_shape(theirs->model, 0),
                         our_shape = plan::model_shape(ours.model, 0);
  // A list of layers, and every n-th layer, may say the same.
  const auto has_window_of = [](const models::Layer& a, const models::Layer& b) { return a.window == b.window; };
  const bool same_windows = std::equal(their_shape.layers.begin(), their_shape.layers.end(), our_shape.layers.begin(),
                                       our_shape.layers.end(), has_window_of);
  std::string other;
  std::vector<std::string> notes;
  for (const config::Difference& d : config::differences(*theirs, ours)) {
    const bool heads = (d.name == "model.n_heads" && their_shape.H != our_shape.H) ||
                       (d.name == "model.n_kv_heads" && their_shape.G != our_shape.G);
    const bool window = d.name == "model.sliding_window" || d.name == "model.full_attention_interval" ||
                        d.name == "model.first_full_attention_layer" || d.name == "model.layer_types";
    if (heads || (window && !same_windows) || d.name == "model.rope_pairs" || d.name == "model.partial_rotary_factor" ||
        config::is_block_option(d.name)) {
      other += fmt::format("\n    {}: {} -> {}", d.name, d.before, d.after);
    } else if (d.name.starts_with("model.rope_") || d.name == "model.query_position_scale" ||
               d.name == "model.norm_eps" || d.name == "model.moe_top_k" || d.name == "model.attention_scope" ||
               d.name == "objective.kind" ||
               (theirs->objective.masked() && ours.objective.masked() && changes_masks(d))) {
      notes.push_back(fmt::format("differs from the checkpoint: {}: {} -> {}", d.name, d.before, d.after));
    }
  }
  if (!other.empty())
    throw user_error(fmt::format("{} holds the weights of another model:{}", source.reader.folder().string(), other),
                     "weights mean something else under other keys, also where their shapes are equal",
                     "give [model] the checkpoint's keys")
        .about("checkpoint.initial_load_path");
  return notes;
}

}  // namespace hearth::convert
