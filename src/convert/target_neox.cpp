// GPT-NeoX's files, as its own converters write them: one for each layer and rank, and one for each rank's state.
#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include <nlohmann/json.hpp>

#include "base/error.h"
#include "config/choices.h"
#include "convert/cast.h"
#include "convert/rank_slices.h"
#include "convert/target.h"
#include "formats/torch_file.h"
#include "plan/parameters.h"

namespace hearth::convert {
namespace {

constexpr const char* kStepFolder = "global_step0";

void refuse_without_home(const Description& d, int64_t ranks, QkvLayout layout) {
  const config::Model& m = d.model;
  if (m.norm_type != config::NormType::kRmsNorm && m.norm_type != config::NormType::kRmsNormNeox)
    throw user_error(
        fmt::format("model.norm_type = \"{}\" has no home in GPT-NeoX's format", config::name_of(m.norm_type)),
        "its layernorm has a bias", "keep the model native");
  if (d.objective != config::ObjectiveKind::kCausalLm)
    throw user_error(
        fmt::format("objective.kind = \"{}\" has no home in GPT-NeoX's format", config::name_of(d.objective)),
        "its code has causal models of text only", "keep the model native");
  if (m.rope_scaling_factor != 1)
    throw user_error(
        fmt::format("model.rope_scaling_factor = {} has no home in GPT-NeoX's format", m.rope_scaling_factor),
        "its code has no scaled rotary embedding", "write Hugging Face's format");
  const plan::ModelShape s = plan::model_shape(m, 0);
  if (ranks < 1 || s.H % ranks != 0 || s.G % ranks != 0 || s.F % ranks != 0 || s.V % ranks != 0)
    throw user_error(fmt::format("--tensor-parallel {} does not divide the model", ranks),
                     fmt::format("it has {} heads, {} keys, width {} and {} tokens", s.H, s.G, s.F, s.V),
                     "give a divisor of all four");
  if (layout == QkvLayout::kSlots && s.G * s.K % s.H != 0)
    throw user_error(fmt::format("{} heads cannot share {} keys in slots", s.H, s.G),
                     "each slot has an equal part of a key", "give --to-qkv-layout split");
}

class NeoxWriter {
 public:
  NeoxWriter(const Path& step, const Model& model, Progress& progress)
      : step_(step),
        model_(model),
        progress_(progress),
        s_(plan::model_shape(model.description.model, 0)),
        slots_(model.qkv_layout == QkvLayout::kSlots),
        ranks_(model.tensor_parallel) {}

  void run() {
    for (rank_ = 0; rank_ < ranks_; ++rank_) {
      const RankSlicer rank = slicer();
      write_layer(0, {rank.rows("word_embeddings.weight", "tok_embeddings.weight")});
      for (int64_t i = 0; i < s_.L; ++i) write_layer(i + 2, layer(i));
      write_layer(s_.L + 3, {rank.whole("norm.scale", "norm.weight")});
      write_layer(s_.L + 4, {rank.rows("final_linear.weight", s_.tied ? "tok_embeddings.weight" : "output.weight")});
      write_state();
    }
  }

 private:
  RankSlicer slicer() const { return {model_.tensors, ranks_, rank_}; }

  RankTensor queries_keys_values(const std::string& prefix) const {
    const RankSlicer rank = slicer();
    const Transfer &q = rank.find(prefix + "wq.weight"), &k = rank.find(prefix + "wk.weight"),
                   &v = rank.find(prefix + "wv.weight");
    const int64_t K = s_.K, queries = s_.H / ranks_, keys = s_.G / ranks_;
    RankTensor tensor{{"attention.query_key_value.weight", DType::kFloat32, {}}, {}, {}};
    if (!slots_ && s_.H != s_.G) {
      RankSlicer::append_rows(tensor, q, rank_ * queries * K, queries * K);
      for (const Transfer* source : {&k, &v}) RankSlicer::append_rows(tensor, *source, rank_ * keys * K, keys * K);
      return tensor;
    }
    const int64_t share = K * keys / queries;
    for (int64_t slot = rank_ * queries; slot < (rank_ + 1) * queries; ++slot) {
      RankSlicer::append_rows(tensor, q, slot * K, K);
      for (const Transfer* source : {&k, &v}) RankSlicer::append_rows(tensor, *source, slot * share, share);
    }
    return tensor;
  }

  // The code of Llemma's branch loads the frequencies with the weights, and lacks nothing else.
  RankTensor frequencies() const {
    std::vector<float> values;
    for (int64_t i = 0; i < s_.K; i += 2)
      values.push_back(static_cast<float>(
          1 / std::pow(model_.description.model.rope_theta, static_cast<double>(i) / static_cast<double>(s_.K))));
    RankTensor tensor{{"attention.rotary_emb.inv_freq", model_.dtype, {std::ssize(values)}}, {}, {}};
    if (model_.dtype == DType::kFloat32)
      tensor.values.assign(std::as_bytes(std::span(values)).begin(), std::as_bytes(std::span(values)).end());
    else
      cast(std::as_bytes(std::span(values)), DType::kFloat32, model_.dtype, tensor.values);
    return tensor;
  }

  std::vector<RankTensor> layer(int64_t i) const {
    const RankSlicer rank = slicer();
    const std::string prefix = fmt::format("layers.{}.", i);
    std::vector<RankTensor> tensors = {rank.whole("input_layernorm.scale", prefix + "attention_norm.weight"),
                                       queries_keys_values(prefix + "attention."),
                                       rank.columns("attention.dense.weight", prefix + "attention.wo.weight"),
                                       rank.whole("post_attention_layernorm.scale", prefix + "ffn_norm.weight")};
    const std::string gate = prefix + "feed_forward.w1.weight", up = prefix + "feed_forward.w3.weight",
                      down = prefix + "feed_forward.w2.weight";
    if (slots_) {
      tensors.push_back(rank.rows("mlp.w1.weight", gate));
      tensors.push_back(rank.rows("mlp.w3.weight", up));
      tensors.push_back(rank.columns("mlp.w2.weight", down));
      tensors.push_back(frequencies());
    } else {
      tensors.push_back(rank.rows("mlp.linear1.weight", up, gate));
      tensors.push_back(rank.columns("mlp.linear2.weight", down));
    }
    return tensors;
  }

  void write_layer(int64_t number, const std::vector<RankTensor>& tensors) {
    write_rank_file(step_ / fmt::format("layer_{:02}-model_{:02}-model_states.pt", number, rank_), model_.reader,
                    tensors, progress_);
  }

  // The state of a rank before its first step. "module": None lets DeepSpeed read the files of the layers.
  void write_state() const {
    formats::PickleWriter pickle;
    pickle.empty_dict();
    pickle.mark();
    for (const char* key : {"module", "optimizer", "lr_scheduler"}) {
      pickle.string(key);
      pickle.none();
    }
    for (const auto& [key, value] : {std::pair<const char*, int64_t>{"dp_world_size", 1},
                                     {"mp_world_size", ranks_},
                                     {"global_steps", 0},
                                     {"global_samples", 0},
                                     {"skipped_steps", 0},
                                     {"iteration", 0}}) {
      pickle.string(key);
      pickle.integer(value);
    }
    pickle.set_items();
    formats::write_torch_pickle(step_ / fmt::format("mp_rank_{:02}_model_states.pt", rank_), pickle);
  }

  const Path step_;
  const Model& model_;
  Progress& progress_;
  const plan::ModelShape s_;
  const bool slots_;
  const int64_t ranks_;
  int64_t rank_ = 0;
};

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
                                 {"no_weight_tying", true}};
  if (model.description.max_positions > 0) keys["max_position_embeddings"] = model.description.max_positions;
  if (model.qkv_layout == QkvLayout::kSlots) {
    keys["mlp_type"] = "llama";
  } else {
    keys["activation"] = "swiglu";
    keys["intermediate_size"] = 3 * m.hidden_dim;
  }
  return keys.dump(2) + "\n";
}

}  // namespace

std::vector<std::string> write_neox(const Path& folder, const Model& model, Progress& progress) {
  const config::Model& m = model.description.model;
  refuse_without_home(model.description, model.tensor_parallel, model.qkv_layout);
  make_folders(folder / kStepFolder);
  write_text_file(folder / "latest", kStepFolder);
  write_text_file(folder / "model.yml", neox_keys(model));
  // Norms are in every rank's files.
  for (const Transfer& tensor : model.tensors) {
    const bool is_tied = m.enable_weight_tying && tensor.to.name == "tok_embeddings.weight";
    progress.all_bytes += (tensor.to.shape.size() == 1 ? model.tensor_parallel - 1
                           : is_tied                   ? 1
                                                       : 0) *
                          bytes_of(tensor.to);
  }
  NeoxWriter(folder / kStepFolder, model, progress).run();
  sync_folder(folder / kStepFolder);
  std::vector<std::string> notes;
  if (m.enable_weight_tying)
    notes.emplace_back("the embedding is also written as final_linear: train with no_weight_tying: true");
  if (model.tokenizer != nullptr && model.tokenizer->kind() != "ids")
    notes.emplace_back("no tokenizer is written: GPT-NeoX's folders have no home for it");
  return notes;
}

}  // namespace hearth::convert
