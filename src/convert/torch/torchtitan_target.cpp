// SPDX-License-Identifier: Apache-2.0
// The state of a training in a folder of torchtitan 0.3, for its CheckpointManager. It asks for every key by name: the
// moments of the weights, 12 settings of the optimizer for each, the schedule's count and the training's counts.
#include <fmt/format.h>

#include <array>
#include <bit>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "convert/rank_layout.h"
#include "convert/target.h"
#include "plan/optimizer/parameter_groups.h"
#include "plan/tensor_names.h"

namespace hearth::convert {
namespace {

// The row of torchtitan's optimizer that has a weight of ours.
RankRow optimizer_row(const std::string& weight) {
  if (const auto joined = rank_table("torchtitan").find_source(weight)) return *joined;
  RankRow own = row_of(weight);
  own.name = to_torchtitan(weight).value_or(weight);
  return own;
}

// A row comes where its first weight is. The other weights have none.
bool is_first(const RankRow& row, const std::string& weight) { return row.sources.front().name == weight; }

std::vector<RankRow> optimizer_rows(const TargetModel& model) {
  std::vector<RankRow> rows;
  for (const Transfer& tensor : model.tensors) {
    if (is_training_state(tensor.from)) continue;
    if (RankRow row = optimizer_row(tensor.from); is_first(row, tensor.from)) rows.push_back(std::move(row));
  }
  return rows;
}

// Adds the joined moment of a row to the reader, and returns its name. `moment`: that of the row's first weight.
std::string join(checkpoint::Reader& reader, const RankRow& row, const NameParts& moment, const plan::ModelShape& s) {
  const std::vector<int64_t> sizes = sizes_of(row, s);
  mesh::TensorInfo info = *reader.find(moment.of(moment.weight));
  info.name = moment.of(row.name);
  info.shape[0] = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
  std::vector<checkpoint::RowRun> runs;
  for (const RankRun& run : RankLayout(s.H, s.G, 1).runs(row, sizes, 0))
    runs.push_back({moment.of(row.sources[run.source].name), run.first, run.count});
  std::string name = info.name;
  reader.derive(std::move(info), runs);
  return name;
}

// The settings as torch's AdamW has them, with the rate of the next step.
void add_settings(checkpoint::RankFile& file, const TargetModel& model, const std::vector<RankRow>& rows,
                  std::vector<std::string>& notes) {
  const config::Optimizer& optimizer = model.run->optimizer;
  const plan::ParameterPlan plan = plan::parameter_plan(plan::model_shape(model.description.model, 0));
  const std::vector<plan::ParameterSettings> settings = plan::parameter_settings(optimizer, plan);
  const double rate = next_rate(model);
  bool differ = false;
  for (const RankRow& row : rows) {
    const auto settings_of = [&](const std::string& part) { return settings[static_cast<size_t>(plan.find(part))]; };
    const plan::ParameterSettings own = settings_of(row.sources.front().name);
    const plan::ParameterSettings first = settings_of(rows.front().sources.front().name);
    for (const RankRow::Source& source : row.sources) {
      const plan::ParameterSettings other = settings_of(source.name);
      differ = differ || other.weight_decay != first.weight_decay || other.lr_factor != first.lr_factor;
    }
    const std::pair<const char*, formats::Scalar> values[] = {
        {"fused", true},
        {"foreach", false},
        {"lr", rate * own.lr_factor},
        {"betas", std::pair(optimizer.beta1, optimizer.beta2)},
        {"eps", optimizer.eps},
        {"weight_decay", own.weight_decay},
        {"amsgrad", false},
        {"maximize", false},
        {"capturable", false},
        {"differentiable", false},
        {"decoupled_weight_decay", optimizer.name != config::OptimizerName::kAdam},
        {"initial_lr", optimizer.lr * own.lr_factor},
    };
    for (const auto& [key, value] : values) file.add(fmt::format("optimizer.param_groups.{}.{}", row.name, key), value);
  }
  if (differ)
    notes.emplace_back(
        "weights differ in decay or rate: torchtitan's run needs a group of parameters for each kind, as it takes a "
        "group's settings from the first weight");
  if (optimizer.form == config::OptimizerForm::kTransformers)
    notes.emplace_back("optimizer.form = \"transformers\" has no home there: torchtitan's updates are torch's");
}

}  // namespace

void join_moments(TargetModel& model) {
  std::vector<std::string> parameters;
  for (const RankRow& row : optimizer_rows(model)) {
    for (const std::string& name : row.source_names()) parameters.push_back(name);
  }
  require_moments(model, parameters, "torchtitan");
  const plan::ModelShape shape = plan::model_shape(model.description.model, 0);
  std::vector<Transfer> tensors;
  for (const Transfer& tensor : model.tensors) {
    const NameParts moment = parts_of(tensor.from);
    const RankRow row = optimizer_row(moment.weight);
    if (moment.before.empty() || row.sources.size() == 1) {
      tensors.push_back(tensor);
    } else if (is_first(row, moment.weight)) {
      const std::string joined = join(model.reader, row, moment, shape);
      tensors.push_back({joined, *model.reader.find(joined)});
    }
  }
  model.tensors = std::move(tensors);
}

std::vector<std::string> add_torchtitan_state(checkpoint::RankFile& file, const TargetModel& model) {
  const TrainingState& training = *model.training;
  std::vector<std::string> notes;
  const std::vector<RankRow> rows = optimizer_rows(model);
  for (const RankRow& row : rows) {
    const int64_t updates =
        common_updates(model, row.source_names(), "torchtitan has one count for queries, keys and values");
    const auto bytes = std::bit_cast<std::array<std::byte, 4>>(static_cast<float>(updates));
    file.add({{plan::adam_step_name(row.name), DType::kFloat32, {}}, {}, bytes});
  }
  add_settings(file, model, rows, notes);
  file.add("lr_scheduler.last_epoch", training.step);
  file.add("train_state.step", training.step);
  file.add("train_state.ntokens_seen", training.tokens_seen);
  notes.push_back(fmt::format(
      "torchtitan goes on after step {} if this folder has the name checkpoint/step-{} in its dump folder, or "
      "with checkpoint.initial_load_path and initial_load_model_only = False; also give it "
      "checkpoint.exclude_from_loading = [\"dataloader\"]",
      training.step, training.step));
  return notes;
}

}  // namespace hearth::convert
