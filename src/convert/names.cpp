#include "convert/names.h"

#include <algorithm>
#include <array>
#include <iterator>

namespace hearth::convert {
namespace {

// A row holds for each layer if it begins with "layers.": then it is what follows the layer's number.
struct NameRow {
  std::string_view hearth, hugging_face, torchtitan;
  int meta_split;  // Meta's dimension; -1: none
};

constexpr std::string_view kLayers = "layers.", kHuggingFaceLayers = "model.layers.";

constexpr std::array kNames = {
    NameRow{"tok_embeddings.weight", "model.embed_tokens.weight", "tok_embeddings.weight", -1},
    NameRow{"norm.weight", "model.norm.weight", "norm.weight", -1},
    NameRow{"output.weight", "lm_head.weight", "lm_head.weight", 0},
};
constexpr std::array kLayerNames = {
    NameRow{"attention_norm.weight", "input_layernorm.weight", "attention_norm.weight", -1},
    NameRow{"attention.wq.weight", "self_attn.q_proj.weight", "attention.qkv_linear.wq.weight", 0},
    NameRow{"attention.wk.weight", "self_attn.k_proj.weight", "attention.qkv_linear.wk.weight", 0},
    NameRow{"attention.wv.weight", "self_attn.v_proj.weight", "attention.qkv_linear.wv.weight", 0},
    NameRow{"attention.wq.bias", "self_attn.q_proj.bias", "attention.qkv_linear.wq.bias", -1},
    NameRow{"attention.wk.bias", "self_attn.k_proj.bias", "attention.qkv_linear.wk.bias", -1},
    NameRow{"attention.wv.bias", "self_attn.v_proj.bias", "attention.qkv_linear.wv.bias", -1},
    NameRow{"attention.q_norm.weight", "self_attn.q_norm.weight", "attention.q_norm.weight", -1},
    NameRow{"attention.k_norm.weight", "self_attn.k_norm.weight", "attention.k_norm.weight", -1},
    NameRow{"attention.wo.weight", "self_attn.o_proj.weight", "attention.wo.weight", 1},
    NameRow{"ffn_norm.weight", "post_attention_layernorm.weight", "ffn_norm.weight", -1},
    NameRow{"feed_forward.w1.weight", "mlp.gate_proj.weight", "feed_forward.w1.weight", 0},
    NameRow{"feed_forward.w2.weight", "mlp.down_proj.weight", "feed_forward.w2.weight", 1},
    NameRow{"feed_forward.w3.weight", "mlp.up_proj.weight", "feed_forward.w3.weight", 0},
};

// "layers.12.attention.wq.weight" -> "12" and "attention.wq.weight"; empty without a number as programs write it.
struct LayerName {
  std::string_view number, rest;
};
std::optional<LayerName> split_layer(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return std::nullopt;
  name.remove_prefix(prefix.size());
  const size_t dot = name.find('.');
  if (dot == std::string_view::npos || dot == 0 || dot > 6) return std::nullopt;
  const std::string_view number = name.substr(0, dot);
  if (number.find_first_not_of("0123456789") != std::string_view::npos) return std::nullopt;
  if (number.size() > 1 && number[0] == '0') return std::nullopt;
  return LayerName{number, name.substr(dot + 1)};
}

std::optional<std::string> renamed(std::string_view name, std::string_view NameRow::*from,
                                   std::string_view NameRow::*to, std::string_view from_layers,
                                   std::string_view to_layers) {
  for (const NameRow& row : kNames) {
    if (row.*from == name) return std::string(row.*to);
  }
  const std::optional<LayerName> layer = split_layer(name, from_layers);
  if (!layer) return std::nullopt;
  for (const NameRow& row : kLayerNames) {
    if (row.*from == layer->rest)
      return std::string(to_layers) + std::string(layer->number) + "." + std::string(row.*to);
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> from_hugging_face(std::string_view name) {
  return renamed(name, &NameRow::hugging_face, &NameRow::hearth, kHuggingFaceLayers, kLayers);
}
std::optional<std::string> to_hugging_face(std::string_view name) {
  return renamed(name, &NameRow::hearth, &NameRow::hugging_face, kLayers, kHuggingFaceLayers);
}

std::optional<std::string> from_torchtitan(std::string_view name) {
  return renamed(name, &NameRow::torchtitan, &NameRow::hearth, kLayers, kLayers);
}
std::optional<std::string> to_torchtitan(std::string_view name) {
  return renamed(name, &NameRow::hearth, &NameRow::torchtitan, kLayers, kLayers);
}

bool is_training_state(std::string_view name) {
  for (const std::string_view state : {"optimizer", "lr_scheduler", "dataloader", "train_state"}) {
    if (name == state || (name.starts_with(state) && name[state.size()] == '.')) return true;
  }
  return false;
}

bool is_computed(std::string_view name) { return name == "rope.freqs" || name.ends_with(".rotary_emb.inv_freq"); }

bool has_pairs(std::string_view name) {
  static constexpr std::string_view kWithPairs[] = {"attention.wq.", "attention.wk.", "attention.q_norm.",
                                                    "attention.k_norm."};
  return std::any_of(std::begin(kWithPairs), std::end(kWithPairs),
                     [&](std::string_view part) { return name.find(part) != std::string_view::npos; });
}

std::optional<size_t> meta_split(std::string_view name) {
  int split = -1;
  for (const NameRow& row : kNames) {
    if (row.hearth == name) split = row.meta_split;
  }
  if (const std::optional<LayerName> layer = split_layer(name, kLayers)) {
    for (const NameRow& row : kLayerNames) {
      if (row.hearth == layer->rest) split = row.meta_split;
    }
  }
  return split < 0 ? std::nullopt : std::optional(static_cast<size_t>(split));
}

}  // namespace hearth::convert
