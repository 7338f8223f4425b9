// The state of a training in a folder of torchtitan 0.3, for its CheckpointManager. It asks for every key by name: the
// moments of the weights, 12 settings of the optimizer for each, the schedule's count and the training's counts.
#include <fmt/format.h>

#include <array>
#include <bit>
#include <utility>

#include "base/error.h"
#include "convert/names.h"
#include "convert/target.h"
#include "plan/optimizer/parameter_groups.h"
#include "plan/tensor_names.h"

namespace hearth::convert {
namespace {

constexpr std::string_view kQueries = "attention.wq.";

// The weights that torchtitan's optimizer joins with the queries' weight (or bias) `name`, in its order.
std::array<std::string, 3> joined_with(const std::string& name) {
  const auto named = [&](const char* part) {
    std::string other = name;
    return other.replace(other.find(kQueries), kQueries.size(), fmt::format("attention.{}.", part));
  };
  return {name, named("wk"), named("wv")};
}

// A weight of torchtitan's optimizer, and the weights of ours that it consists of.
struct OptimizerWeight {
  std::string name;                // torchtitan's
  std::vector<std::string> parts;  // ours
};

std::vector<OptimizerWeight> optimizer_weights(const Model& model) {
  std::vector<OptimizerWeight> weights;
  for (const Transfer& tensor : model.tensors) {
    const std::string& name = tensor.from;
    if (is_training_state(name)) continue;
    if (name.find("attention.wk.") != std::string::npos || name.find("attention.wv.") != std::string::npos) continue;
    std::string theirs = to_torchtitan(name).value();
    if (const size_t at = theirs.find(".wq."); at != std::string::npos) {
      const auto parts = joined_with(name);
      weights.push_back({theirs.replace(at, 4, ".wqkv."), {parts.begin(), parts.end()}});
    } else {
      weights.push_back({theirs, {name}});
    }
  }
  return weights;
}

// Adds the joined moment to the reader: for each key its queries, the key, the value.
void join(checkpoint::Reader& reader, const std::array<std::string, 3>& parts, const std::string& name, int64_t K) {
  const mesh::TensorInfo queries = *reader.find(parts[0]), keys = *reader.find(parts[1]);
  const int64_t count = keys.shape[0] / K, rows = queries.shape[0] / count;
  mesh::TensorInfo info = queries;
  info.name = name;
  info.shape[0] += 2 * keys.shape[0];
  std::vector<checkpoint::RowRun> runs;
  for (int64_t g = 0; g < count; ++g) {
    runs.push_back({parts[0], g * rows, rows});
    runs.push_back({parts[1], g * K, K});
    runs.push_back({parts[2], g * K, K});
  }
  reader.derive(std::move(info), runs);
}

// The settings as torch's AdamW has them, with the rate of the next step.
void add_settings(checkpoint::RankFile& file, const Model& model, const std::vector<OptimizerWeight>& weights,
                  std::vector<std::string>& notes) {
  const config::Optimizer& optimizer = model.run->optimizer;
  const plan::ParameterPlan plan = plan::parameter_plan(plan::model_shape(model.description.model, 0));
  const std::vector<plan::ParameterSettings> settings = plan::parameter_settings(optimizer, plan);
  const double rate = next_rate(model);
  bool differ = false;
  for (const OptimizerWeight& weight : weights) {
    const auto settings_of = [&](const std::string& part) { return settings[static_cast<size_t>(plan.find(part))]; };
    const plan::ParameterSettings own = settings_of(weight.parts.front());
    const plan::ParameterSettings first = settings_of(weights.front().parts.front());
    for (const std::string& part : weight.parts) {
      const plan::ParameterSettings other = settings_of(part);
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
    for (const auto& [key, value] : values)
      file.add(fmt::format("optimizer.param_groups.{}.{}", weight.name, key), value);
  }
  if (differ)
    notes.emplace_back(
        "weights differ in decay or rate: torchtitan's run needs a group of parameters for each kind, as it takes a "
        "group's settings from the first weight");
  if (optimizer.form == config::OptimizerForm::kTransformers)
    notes.emplace_back("optimizer.form = \"transformers\" has no home there: torchtitan's updates are torch's");
}

}  // namespace

void join_moments(Model& model) {
  std::vector<std::string> parameters;
  for (const OptimizerWeight& weight : optimizer_weights(model))
    parameters.insert(parameters.end(), weight.parts.begin(), weight.parts.end());
  require_moments(model, parameters, "torchtitan");
  const int64_t K = head_width(model.description.model);
  std::vector<Transfer> tensors;
  for (const Transfer& tensor : model.tensors) {
    const std::string& name = tensor.from;
    const bool is_joined = is_training_state(name) && name.find(".attention.w") != std::string::npos &&
                           name.find(".attention.wo.") == std::string::npos;
    if (!is_joined) {
      tensors.push_back(tensor);
    } else if (name.find(kQueries) != std::string::npos) {
      Transfer joined = tensor;
      joined.from.replace(joined.from.find(kQueries), kQueries.size(), "attention.qkv_linear.wqkv.");
      join(model.reader, joined_with(name), joined.from, K);
      joined.to = *model.reader.find(joined.from);
      tensors.push_back(joined);
    }
  }
  model.tensors = std::move(tensors);
}

std::vector<std::string> add_torchtitan_state(checkpoint::RankFile& file, const Model& model) {
  const TrainingState& training = *model.training;
  std::vector<std::string> notes;
  const std::vector<OptimizerWeight> weights = optimizer_weights(model);
  for (const OptimizerWeight& weight : weights) {
    const int64_t updates =
        common_updates(model, weight.parts, "torchtitan has one count for queries, keys and values");
    const auto bytes = std::bit_cast<std::array<std::byte, 4>>(static_cast<float>(updates));
    file.add({{plan::adam_step_name(weight.name), DType::kFloat32, {}}, {}, bytes});
  }
  add_settings(file, model, weights, notes);
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
