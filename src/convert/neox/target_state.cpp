// SPDX-License-Identifier: Apache-2.0
// The state of a training in GPT-NeoX's files: moments, float32 weights, step and schedule.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "config/choices.h"
#include "convert/neox/files.h"
#include "convert/neox/rank.h"
#include "convert/neox/zero_state.h"
#include "convert/target.h"
#include "plan/tensor_names.h"

namespace hearth::convert {
namespace {

// A rate that differs by less is the same: formulas of two programs differ in rounding.
constexpr double kSameRate = 1e-6;

constexpr const char* kKeepNative = "train on with Hearth, or leave out --resume to write the weights alone";

// GPT-NeoX's AnnealingLR, as its state_dict() has it.
struct NeoxSchedule {
  double start_lr, min_lr;
  double warmup_fraction;  // key `warmup`, for main
  double warmup;           // steps
  int64_t end;
  std::string style;
};

bool is_llemma(const TargetModel& model) { return model.qkv_layout == QkvLayout::kSlots; }

NeoxSchedule neox_schedule(const TargetModel& model) {
  const config::RunConfig& run = *model.run;
  const plan::LrSchedule schedule = schedule_of(model);
  const bool is_constant = schedule.decay_type == config::DecayType::kConstant;
  const bool is_late = !is_constant && schedule.decay_steps < schedule.total_steps - schedule.warmup_steps;
  const bool has_type = is_constant || schedule.decay_type == config::DecayType::kLinear ||
                        schedule.decay_type == config::DecayType::kCosine ||
                        schedule.decay_type == config::DecayType::kExponential;
  if (is_late || !has_type)
    throw user_error(
        is_late ? fmt::format("lr_scheduler.decay_ratio = {} has no home in GPT-NeoX's schedule",
                              run.lr_scheduler.decay_ratio)
                : fmt::format("lr_scheduler.decay_type = \"{}\" has no home in GPT-NeoX's schedule",
                              config::name_of(schedule.decay_type)),
        is_late ? "its decay begins at the warm-up's end" : "it has linear, cosine, exponential and constant ones",
        kKeepNative);
  NeoxSchedule s{};
  s.start_lr = run.optimizer.lr;
  s.min_lr = run.optimizer.lr * run.lr_scheduler.min_lr_factor;
  s.end = schedule.end_step;
  s.style = config::name_of(schedule.decay_type);
  // Llemma's branch fails without a warm-up. One step of it changes nothing after the first step.
  s.warmup =
      static_cast<double>(is_llemma(model) ? std::max<int64_t>(schedule.warmup_steps, 1) : schedule.warmup_steps);
  if (is_llemma(model)) return s;
  // Main multiplies its share of the steps again, and asks for the same number.
  s.warmup_fraction = s.warmup / static_cast<double>(s.end);
  s.warmup = s.warmup_fraction * static_cast<double>(s.end);
  return s;
}

// Says where the rates of that program's formula leave those of the training's own. The next step's rate is in the
// optimizer's state, so it is the training's.
void note_other_rates(const TargetModel& model, std::vector<std::string>& notes) {
  const plan::LrSchedule ours = schedule_of(model);
  const NeoxSchedule s = neox_schedule(model);
  plan::LrSchedule theirs = ours;
  theirs.rule = is_llemma(model) ? config::ScheduleRule::kNeox2023 : config::ScheduleRule::kNeox;
  theirs.warmup_steps = std::llround(s.warmup);
  theirs.end_step = s.end;
  double most = 0;
  int64_t at = 0;
  constexpr int64_t kSamples = 10000;
  const int64_t first = model.training->step + 2, last = ours.total_steps;
  const int64_t stride = std::max<int64_t>(1, (last - first) / kSamples);
  for (int64_t step = first; step <= last; step += stride) {
    const double apart = std::abs(plan::learning_rate(ours, step) - plan::learning_rate(theirs, step));
    if (apart > most) most = apart, at = step;
  }
  if (most <= kSameRate * s.start_lr) return;
  notes.push_back(fmt::format(
      "rates follow GPT-NeoX's formula from the second step on: that of step {} is {:.6g} there and {:.6g} in the "
      "training (lr_scheduler.rule = \"{}\" has GPT-NeoX's)",
      at, plan::learning_rate(theirs, at), plan::learning_rate(ours, at), config::name_of(theirs.rule)));
}

// GPT-NeoX has one group of matrices and one of norms, and a single one where nothing decays.
bool has_single_group(const Decay& decay) { return decay.matrices == 0; }

Decay neox_decay(const TargetModel& model) {
  const Decay found = decay_of(model, "GPT-NeoX");
  if (has_single_group(found) && found.norms != 0)
    throw user_error("a decay of norms alone has no home in GPT-NeoX's state",
                     "it has one group of weights where matrices do not decay", kKeepNative);
  return found;
}

}  // namespace

std::vector<std::string> check_neox_state(const TargetModel& model) {
  std::vector<std::string> notes;
  updates_of_all_weights(model, "DeepSpeed");
  neox_decay(model);
  note_other_rates(model, notes);
  if (model.run->optimizer.form == config::OptimizerForm::kTransformers)
    notes.emplace_back("optimizer.form = \"transformers\" has no home there: DeepSpeed's updates are torch's");
  notes.push_back(fmt::format(
      "GPT-NeoX goes on after step {} on {} x {} x {} ranks with the keys of model.yml; its data begin where its own "
      "order has that step, and random numbers begin anew (no_load_rng)",
      model.training->step, model.data_parallel, model.pipeline_parallel, model.tensor_parallel));
  return notes;
}

void write_neox_optimizer(const Path& step_folder, const TargetModel& model, int64_t stage, int64_t rank,
                          ConvertProgress& progress) {
  const plan::ModelShape shape = plan::model_shape(model.description.model, 0);
  const std::vector<Transfer> weights = in_float32(model, plan::weight_name),
                              exp_avg = in_float32(model, plan::exp_avg_name),
                              exp_avg_sq = in_float32(model, plan::exp_avg_sq_name);
  const auto rank_of = [&](const std::vector<Transfer>& tensors) {
    return NeoxRank(tensors, shape, model.qkv_layout, model.tensor_parallel, rank);
  };
  const NeoxRank of_weights = rank_of(weights), of_exp_avg = rank_of(exp_avg), of_exp_avg_sq = rank_of(exp_avg_sq);
  const Decay decay = neox_decay(model);
  ZeroGroup matrices{"weight_decay_params", decay.matrices, {}}, norms{"no_weight_decay_params", decay.norms, {}};
  const std::vector<int64_t> bounds = neox_stages(shape, model.pipeline_parallel, model.qkv_layout);
  const auto first_layer = bounds.begin() + stage;
  for (const int64_t number : of_weights.numbers(first_layer[0], first_layer[1])) {
    const std::string module = number == 0 && shape.tied ? std::string(kNeoxTied) : fmt::format("{}.", number);
    std::vector<RankTensor> layer = of_weights.layer(number), first = of_exp_avg.layer(number),
                            second = of_exp_avg_sq.layer(number);
    for (size_t i = 0; i < layer.size(); ++i) {
      const bool is_matrix = layer[i].info.shape.size() > 1 && !has_single_group(decay);
      (is_matrix ? matrices : norms)
          .tensors.push_back(
              {module + layer[i].info.name, std::move(layer[i]), std::move(first[i]), std::move(second[i])});
    }
  }
  std::vector<ZeroGroup> groups;
  if (!has_single_group(decay)) groups.push_back(std::move(matrices));
  groups.push_back(std::move(norms));
  const ZeroSettings settings{model.run->optimizer, next_rate(model), updates_of_all_weights(model, "DeepSpeed")};
  write_zero_files(step_folder, model.dtype == DType::kBFloat16 ? "bf16_" : "", stage * model.tensor_parallel + rank,
                   model.data_parallel, groups, settings, model.reader, progress);
}

PythonDict neox_scheduler(const TargetModel& model) {
  const NeoxSchedule s = neox_schedule(model);
  const PythonValue warmup = is_llemma(model) ? PythonValue(int64_t{std::llround(s.warmup)}) : PythonValue(s.warmup);
  return {{"start_lr", s.start_lr}, {"min_lr", s.min_lr},
          {"warmup_iter", warmup},  {"num_iters", model.training->step},
          {"end_iter", s.end},      {"decay_style", s.style}};
}

void add_neox_training(nlohmann::ordered_json& keys, const TargetModel& model) {
  const config::RunConfig& run = *model.run;
  const NeoxSchedule s = neox_schedule(model);
  const config::Optimizer& optimizer = run.optimizer;
  keys["precision"] = model.dtype == DType::kBFloat16 ? "bfloat16" : model.dtype == DType::kFloat16 ? "fp16" : "fp32";
  keys["zero_optimization"] = {{"stage", 1}};
  keys["optimizer"] = {
      {"type", "Adam"},
      {"params", {{"lr", optimizer.lr}, {"betas", {optimizer.beta1, optimizer.beta2}}, {"eps", optimizer.eps}}}};
  if (optimizer.name == config::OptimizerName::kAdam) keys["optimizer"]["params"]["adam_w_mode"] = false;
  keys["weight_decay"] = neox_decay(model).matrices;
  keys["gradient_clipping"] = run.training.max_norm;
  keys["train_iters"] = schedule_of(model).total_steps;
  keys["lr_decay_iters"] = s.end;
  keys["lr_decay_style"] = s.style;
  keys["min_lr"] = s.min_lr;
  if (!is_llemma(model)) {
    keys["warmup"] = s.warmup_fraction;
  } else {
    keys["warmup_iters"] = std::llround(s.warmup);
    if (s.style == "cosine") keys["decay_lr_to"] = run.lr_scheduler.min_lr_factor;
  }
  keys["finetune"] = false;
  keys["no_load_rng"] = true;
}

int64_t neox_optimizer_bytes(const TargetModel& model) {
  int64_t numel = 0;
  for (const std::string& parameter : trained_weights(model)) {
    const mesh::TensorInfo* weight = model.reader.find(parameter);
    numel += mesh::Box{{}, weight->shape}.numel() * (weight->shape.size() == 1 ? model.tensor_parallel : 1);
  }
  // The last stage has tied weights again.
  if (model.description.model.enable_weight_tying && model.pipeline_parallel > 1)
    numel += mesh::Box{{}, model.reader.find(kEmbedding)->shape}.numel();
  return 3 * numel * dtype_size(DType::kFloat32);
}

}  // namespace hearth::convert
