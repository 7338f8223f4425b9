// SPDX-License-Identifier: Apache-2.0
// GPT-NeoX's files, as its own converters write them: one for each layer and rank, and one for each rank's state.
#include <fmt/format.h>

#include <cctype>
#include <cmath>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "config/choices.h"
#include "convert/names.h"
#include "convert/neox/rank.h"
#include "convert/target.h"
#include "formats/cast.h"
#include "plan/parameters.h"

namespace hearth::convert {
namespace {

constexpr std::string_view kNeoxFormat = "GPT-NeoX";

int64_t iteration_of(const TargetModel& model) { return model.training != nullptr ? model.training->step : 0; }

void refuse_without_home(const TargetModel& model) {
  const Description& d = model.description;
  const config::Model& m = d.model;
  if (m.norm_type != config::NormType::kRmsNorm && m.norm_type != config::NormType::kRmsNormNeox)
    throw no_home(fmt::format("model.norm_type = \"{}\"", config::name_of(m.norm_type)), kNeoxFormat,
                  "its layernorm has a bias", "keep the model native");
  require_llama(m, kNeoxFormat, {"model.norm_type", "model.sliding_window"});
  if (m.head_dim > 0 && m.head_dim != m.dim / m.n_heads)
    throw no_home(fmt::format("model.head_dim = {}", m.head_dim), kNeoxFormat, "its heads have dim / n_heads elements",
                  "write Hugging Face's format");
  if (d.objective != config::ObjectiveKind::kCausalLm)
    throw no_home(fmt::format("objective.kind = \"{}\"", config::name_of(d.objective)), kNeoxFormat,
                  "its code has causal models of text only", "keep the model native");
  if (m.rope_scaling_factor != 1)
    throw no_home(fmt::format("model.rope_scaling_factor = {}", m.rope_scaling_factor), kNeoxFormat,
                  "its code has no scaled rotary embedding", "write Hugging Face's format");
  const plan::ModelShape s = plan::model_shape(m, 0);
  require_ranks(s, model.tensor_parallel, /*has_copies=*/false);
  if (model.qkv_layout == QkvLayout::kSlots && s.G * s.K % s.H != 0)
    throw user_error(fmt::format("{} heads cannot share {} keys in slots", s.H, s.G),
                     "each slot has an equal part of a key", "give --to-qkv-layout split");
  neox_stages(s, model.pipeline_parallel, model.qkv_layout);
}

// The code of Llemma's branch loads the frequencies with the weights, and lacks nothing else.
RankTensor frequencies(const TargetModel& model, int64_t K) {
  std::vector<float> values;
  for (int64_t i = 0; i < K; i += 2)
    values.push_back(static_cast<float>(
        1 / std::pow(model.description.model.rope_theta, static_cast<double>(i) / static_cast<double>(K))));
  RankTensor tensor{{"attention.rotary_emb.inv_freq", model.dtype, {std::ssize(values)}}, {}, {}};
  if (model.dtype == DType::kFloat32)
    tensor.values.assign(std::as_bytes(std::span(values)).begin(), std::as_bytes(std::span(values)).end());
  else
    formats::cast(std::as_bytes(std::span(values)), DType::kFloat32, model.dtype, tensor.values);
  return tensor;
}

// The state of a model-parallel rank, before its first step or that of a training. "module": None lets DeepSpeed read
// the layers' files.
PythonDict rank_state(const TargetModel& model) {
  const int64_t step = iteration_of(model);
  PythonDict state = {{"module", PythonNone{}}, {"optimizer", PythonNone{}}};
  if (model.training != nullptr) {
    state.push_back({"lr_scheduler", neox_scheduler(model)});
  } else {
    state.push_back({"lr_scheduler", PythonNone{}});
    state.push_back({"global_samples", 0});  // without it, DeepSpeed multiplies the steps with its batch
  }
  for (const auto& [key, value] : {std::pair<const char*, int64_t>{"dp_world_size", model.data_parallel},
                                   {"mp_world_size", model.pipeline_parallel * model.tensor_parallel},
                                   {"global_steps", step},
                                   {"skipped_steps", 0},
                                   {"iteration", step}})
    state.push_back({key, value});
  return state;
}

void write_step(const Path& folder, const TargetModel& model, ConvertProgress& progress) {
  const plan::ModelShape shape = plan::model_shape(model.description.model, 0);
  for (int64_t r = 0; r < model.tensor_parallel; ++r) {
    const NeoxRank rank(model.tensors, shape, model.qkv_layout, model.tensor_parallel, r);
    for (const int64_t number : rank.numbers()) {
      std::vector<RankTensor> tensors = rank.layer(number);
      const bool is_block = number >= 2 && number < shape.L() + 2;
      if (is_block && model.qkv_layout == QkvLayout::kSlots) tensors.push_back(frequencies(model, shape.K));
      write_python_file(folder / fmt::format("layer_{:02}-model_{:02}-model_states.pt", number, r),
                        rank_dict(model.reader, tensors, progress));
    }
    for (int64_t stage = 0; stage < model.pipeline_parallel; ++stage) {
      write_python_values(folder / fmt::format("mp_rank_{:02}_model_states.pt", stage * model.tensor_parallel + r),
                          rank_state(model));
      if (model.training != nullptr) write_neox_optimizer(folder, model, stage, r, progress);
    }
  }
}

// YAML 1.1, which GPT-NeoX reads, takes 1e-05 for text and 1.0e-05 for a number.
std::string as_yaml(const nlohmann::ordered_json& keys) {
  const std::string text = keys.dump(2);
  std::string yaml;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool is_exponent = text[i] == 'e' && i + 1 < text.size() && (text[i + 1] == '-' || text[i + 1] == '+');
    size_t digits = i;
    while (is_exponent && digits > 0 && std::isdigit(static_cast<unsigned char>(text[digits - 1])) != 0) --digits;
    if (digits < i && text[digits - 1] != '.') yaml += ".0";
    yaml += text[i];
  }
  return yaml + "\n";
}

// The keys of a run of GPT-NeoX that decide what the weights compute.
std::string neox_keys(const TargetModel& model) {
  const config::Model& m = model.description.model;
  nlohmann::ordered_json keys = {{"model_parallel_size", model.tensor_parallel},
                                 {"num_layers", m.n_layers},
                                 {"hidden_size", m.dim},
                                 {"num_attention_heads", m.n_heads},
                                 {"num_kv_heads", m.n_kv_heads},
                                 {"norm", "rmsnorm"},
                                 {"rms_norm_epsilon", m.norm_eps},
                                 {"pos_emb", "rotary"},
                                 {"rotary_pct", 1},
                                 {"rotary_emb_base", m.rope_theta},
                                 {"no_weight_tying", !m.enable_weight_tying}};
  if (model.description.max_positions > 0) keys["max_position_embeddings"] = model.description.max_positions;
  if (model.qkv_layout == QkvLayout::kSlots) {
    keys["mlp_type"] = "llama";
  } else {
    keys["activation"] = "swiglu";
    keys["intermediate_size"] = 3 * m.hidden_dim;
  }
  keys["pipe_parallel_size"] = model.pipeline_parallel;  // 1, and not 0, has a file for each layer
  if (model.pipeline_parallel > 1) keys["pipe_partition_method"] = "type:transformer|mlp";
  if (model.training != nullptr) add_neox_training(keys, model);
  return as_yaml(keys);
}

}  // namespace

std::vector<std::string> write_neox(const Path& folder, const TargetModel& model, ConvertProgress& progress) {
  refuse_without_home(model);
  std::vector<std::string> notes;
  if (model.training != nullptr) {
    notes = check_neox_state(model);
    progress.all_bytes += neox_optimizer_bytes(model);
  }
  const std::string name = fmt::format("global_step{}", iteration_of(model));
  make_folders(folder / name);
  write_text_file(folder / "model.yml", neox_keys(model));
  // Norms are in every rank's files.
  for (const Transfer& tensor : model.tensors) {
    if (is_training_state(tensor.to.name)) {
      progress.all_bytes -= bytes_of(tensor.to);  // among the optimizer's
      continue;
    }
    if (tensor.to.shape.size() == 1) progress.all_bytes += (model.tensor_parallel - 1) * bytes_of(tensor.to);
  }
  write_step(folder / name, model, progress);
  sync_folder(folder / name);
  check_source(model);
  write_text_file(folder / "latest", name);
  note_missing_tokenizer(model, kNeoxFormat, notes);
  return notes;
}

}  // namespace hearth::convert
