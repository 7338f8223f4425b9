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
#include "formats/torch_file.h"
#include "plan/parameters.h"

namespace hearth::convert {
namespace {

int64_t iteration_of(const Model& model) { return model.training != nullptr ? model.training->step : 0; }

void refuse_without_home(const Model& model) {
  const Description& d = model.description;
  const config::Model& m = d.model;
  const int64_t ranks = model.tensor_parallel;
  if (m.norm_type != config::NormType::kRmsNorm && m.norm_type != config::NormType::kRmsNormNeox)
    throw user_error(
        fmt::format("model.norm_type = \"{}\" has no home in GPT-NeoX's format", config::name_of(m.norm_type)),
        "its layernorm has a bias", "keep the model native");
  require_llama(m, "GPT-NeoX", {"model.norm_type", "model.sliding_window"});
  if (m.head_dim > 0 && m.head_dim != m.dim / m.n_heads)
    throw user_error(fmt::format("model.head_dim = {} has no home in GPT-NeoX's format", m.head_dim),
                     "its heads have dim / n_heads elements", "write Hugging Face's format");
  if (d.objective != config::ObjectiveKind::kCausalLm)
    throw user_error(
        fmt::format("objective.kind = \"{}\" has no home in GPT-NeoX's format", config::name_of(d.objective)),
        "its code has causal models of text only", "keep the model native");
  if (m.rope_scaling_factor != 1)
    throw user_error(
        fmt::format("model.rope_scaling_factor = {} has no home in GPT-NeoX's format", m.rope_scaling_factor),
        "its code has no scaled rotary embedding", "write Hugging Face's format");
  const plan::ModelShape s = plan::model_shape(m, 0);
  if (ranks < 1 || s.H % ranks != 0 || s.G % ranks != 0 || s.F() % ranks != 0 || s.V % ranks != 0)
    throw user_error(fmt::format("--tensor-parallel {} does not divide the model", ranks),
                     fmt::format("it has {} heads, {} keys, width {} and {} tokens", s.H, s.G, s.F(), s.V),
                     "give a divisor of all four");
  if (model.qkv_layout == QkvLayout::kSlots && s.G * s.K % s.H != 0)
    throw user_error(fmt::format("{} heads cannot share {} keys in slots", s.H, s.G),
                     "each slot has an equal part of a key", "give --to-qkv-layout split");
  neox_stages(s, model.pipeline_parallel, model.qkv_layout);
}

class NeoxWriter {
 public:
  NeoxWriter(const Path& step, const Model& model, Progress& progress)
      : step_(step), model_(model), progress_(progress), ranks_(model.tensor_parallel) {}

  void run() {
    const plan::ModelShape shape = plan::model_shape(model_.description.model, 0);
    for (int64_t r = 0; r < ranks_; ++r) {
      const NeoxRank rank(model_.tensors, shape, model_.qkv_layout, ranks_, r);
      for (const int64_t number : rank.numbers()) {
        std::vector<RankTensor> tensors = rank.layer(number);
        const bool is_block = number >= 2 && number < shape.L() + 2;
        if (is_block && model_.qkv_layout == QkvLayout::kSlots) tensors.push_back(frequencies(shape.K));
        write_rank_file(step_ / fmt::format("layer_{:02}-model_{:02}-model_states.pt", number, r), model_.reader,
                        tensors, progress_);
      }
      for (int64_t stage = 0; stage < model_.pipeline_parallel; ++stage) {
        write_state(stage * ranks_ + r);
        if (model_.training != nullptr) write_neox_optimizer(step_, model_, stage, r, progress_);
      }
    }
  }

 private:
  // The code of Llemma's branch loads the frequencies with the weights, and lacks nothing else.
  RankTensor frequencies(int64_t K) const {
    std::vector<float> values;
    for (int64_t i = 0; i < K; i += 2)
      values.push_back(static_cast<float>(
          1 / std::pow(model_.description.model.rope_theta, static_cast<double>(i) / static_cast<double>(K))));
    RankTensor tensor{{"attention.rotary_emb.inv_freq", model_.dtype, {std::ssize(values)}}, {}, {}};
    if (model_.dtype == DType::kFloat32)
      tensor.values.assign(std::as_bytes(std::span(values)).begin(), std::as_bytes(std::span(values)).end());
    else
      formats::cast(std::as_bytes(std::span(values)), DType::kFloat32, model_.dtype, tensor.values);
    return tensor;
  }

  // The state of a model-parallel rank, before its first step or that of a training. "module": None lets DeepSpeed read
  // the layers' files.
  void write_state(int64_t rank) const {
    const int64_t step = iteration_of(model_);
    formats::PickleWriter pickle;
    pickle.empty_dict();
    pickle.mark();
    for (const char* key : {"module", "optimizer"}) {
      pickle.string(key);
      pickle.none();
    }
    if (model_.training != nullptr) {
      push_neox_state(pickle, model_);
    } else {
      pickle.string("lr_scheduler");
      pickle.none();
      pickle.string("global_samples");  // without it, DeepSpeed multiplies the steps with its batch
      pickle.integer(0);
    }
    for (const auto& [key, value] : {std::pair<const char*, int64_t>{"dp_world_size", model_.data_parallel},
                                     {"mp_world_size", model_.pipeline_parallel * ranks_},
                                     {"global_steps", step},
                                     {"skipped_steps", 0},
                                     {"iteration", step}}) {
      pickle.string(key);
      pickle.integer(value);
    }
    pickle.set_items();
    formats::write_torch_pickle(step_ / fmt::format("mp_rank_{:02}_model_states.pt", rank), pickle);
  }

  const Path step_;
  const Model& model_;
  Progress& progress_;
  const int64_t ranks_;
};

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
std::string neox_keys(const Model& model) {
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

std::vector<std::string> write_neox(const Path& folder, const Model& model, Progress& progress) {
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
  NeoxWriter(folder / name, model, progress).run();
  sync_folder(folder / name);
  check_source(model);
  write_text_file(folder / "latest", name);
  if (model.tokenizer != nullptr && model.tokenizer->kind() != "ids")
    notes.emplace_back("no tokenizer is written: GPT-NeoX's folders have no home for it");
  return notes;
}

}  // namespace hearth::convert
