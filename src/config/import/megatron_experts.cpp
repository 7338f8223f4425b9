// SPDX-License-Identifier: Apache-2.0
// Megatron-LM's options of mixtures of experts (megatron/core/transformer/moe).
#include "config/import/megatron_experts.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <string>
#include <vector>

#include "base/text.h"
#include "config/import/dialects.h"

namespace hearth::config {
namespace {

// Options that change no result, by their beginnings.
constexpr std::string_view kOfSpeed[] = {
    "moe_grouped_gemm",     "moe_use_legacy_grouped_gemm", "moe_token_dispatcher_type", "moe_enable_deepep",
    "moe_deepep_num_sms",   "moe_flex_dispatcher_backend", "moe_permute_fusion",        "moe_router_fusion",
    "moe_router_dtype",     "moe_per_layer_logging",       "moe_shared_expert_overlap", "moe_layer_recompute",
    "moe_router_padding_",  "moe_pad_expert_input_to_",    "moe_token_drop_policy",     "moe_use_device_initiated_",
    "moe_hybridep_num_sms", "moe_upcycling_granularity"};
constexpr std::string_view kRead[] = {"moe_layer_freq",
                                      "moe_ffn_hidden_size",
                                      "moe_shared_expert_intermediate_size",
                                      "moe_router_load_balancing_type",
                                      "moe_router_score_function",
                                      "moe_router_topk",
                                      "moe_router_pre_softmax",
                                      "moe_router_num_groups",
                                      "moe_router_group_topk",
                                      "moe_router_topk_scaling_factor",
                                      "moe_router_enable_expert_bias",
                                      "moe_router_bias_update_rate",
                                      "moe_aux_loss_coeff",
                                      "moe_z_loss_coeff"};

// For each layer whether it has experts, by Python's "([0]*3+[1]*58)" or "[0, 1, 1]". Empty: another expression.
std::vector<bool> pattern_of(std::string text) {
  std::erase_if(text, [](char c) { return c == ' ' || c == '(' || c == ')'; });
  std::vector<bool> layers;
  for (const std::string& term : split(text, '+')) {
    const size_t end = term.find(']');
    if (!term.starts_with('[') || end == std::string::npos) return {};
    int64_t times = 1;
    if (end + 1 < term.size()) {
      const char* const last = term.data() + term.size();
      if (term[end + 1] != '*' || std::from_chars(term.data() + end + 2, last, times).ptr != last) return {};
    }
    std::vector<bool> part;
    for (const std::string& layer : split(term.substr(1, end - 1), ',')) {
      if (layer != "0" && layer != "1") return {};
      part.push_back(layer == "1");
    }
    constexpr int64_t kMostLayers = 10000;
    for (int64_t i = 0; i < std::min(times, kMostLayers); ++i) layers.insert(layers.end(), part.begin(), part.end());
  }
  return layers;
}

void import_dense_layers(Draft& draft) {
  const ForeignKey* key = draft.find("moe_layer_freq");
  if (key == nullptr || key->value.text() == "1") return;
  const std::vector<bool> layers = pattern_of(key->value.text());
  const auto dense = std::find(layers.begin(), layers.end(), true) - layers.begin();
  const auto* count = draft.value<int64_t>("model.n_layers");
  const bool are_first = std::find(layers.begin() + dense, layers.end(), false) == layers.end();
  if (layers.empty() || !are_first || (count != nullptr && std::ssize(layers) != *count))
    return draft.refuse(*key, "the first layers have no experts, all others have them",
                        "write a pattern of all layers, as ([0]*1+[1]*47)");
  draft.set("model.n_dense_layers", dense, key);
}

void import_shared(Draft& draft) {
  const ForeignKey* key = draft.find("moe_shared_expert_intermediate_size");
  const auto width = draft.whole(key);
  if (!width || *width == 0) return;
  const auto* own = draft.value<int64_t>("model.moe_hidden_dim");
  const auto* dense = draft.value<int64_t>("model.hidden_dim");
  const int64_t each = own != nullptr ? *own : dense != nullptr ? *dense : 0;
  if (each <= 0 || *width % each != 0)
    return draft.refuse(*key, "shared experts are as wide as some experts together",
                        "give a multiple of --moe-ffn-hidden-size");
  draft.set("model.num_shared_experts", *width / each, key);
}

void import_router(Draft& draft) {
  draft.take_or("model.moe_top_k", "moe_router_topk", 2, "Megatron-LM's default");
  const bool is_sigmoid = draft.text("moe_router_score_function").value_or("softmax") == "sigmoid";
  if (is_sigmoid) draft.set("model.score_func", "sigmoid", draft.find("moe_router_score_function"));
  const auto* top_k = draft.value<int64_t>("model.moe_top_k");
  // A softmax over the chosen alone is the softmax over all, divided by the sum of the chosen.
  const bool normalizes = is_sigmoid ? top_k != nullptr && *top_k > 1 : !draft.is_on("moe_router_pre_softmax");
  draft.set("model.route_norm", normalizes, draft.find("moe_router_pre_softmax"), "as Megatron-LM weighs experts");
  draft.take("model.route_scale", "moe_router_topk_scaling_factor");
  draft.take("model.num_expert_groups", "moe_router_num_groups");
  draft.take("model.num_limited_groups", "moe_router_group_topk");
  if (!draft.is_on("moe_router_enable_expert_bias")) return;
  draft.set("model.expert_bias", true, draft.find("moe_router_enable_expert_bias"));
  draft.take_or("model.load_balance_coeff", "moe_router_bias_update_rate", 1e-3, "Megatron-LM's default");
}

void import_router_losses(Draft& draft) {
  const ForeignKey *type = draft.find("moe_router_load_balancing_type"), *share = draft.find("moe_aux_loss_coeff");
  const std::string balance = draft.text(type).value_or("aux_loss");
  draft.take("model.moe_z_loss_coeff", "moe_z_loss_coeff");
  if (balance != "aux_loss" && balance != "seq_aux_loss" && balance != "none")
    return draft.refuse(*type, "the loss that balances experts is of each sequence", "write seq_aux_loss, or none");
  if (balance == "none" || draft.number(share).value_or(0) == 0) return;
  draft.take("model.moe_aux_loss_coeff", share, "of each sequence");
  if (balance == "aux_loss" && draft.whole("micro_batch_size").value_or(1) > 1)
    draft.note("Megatron-LM's aux_loss is of each micro-batch, as a whole. Hearth's is of each of its sequences.");
}

}  // namespace

void import_megatron_experts(Draft& draft) {
  const ForeignKey *count = draft.find("num_experts"), *ranks = draft.find("expert_model_parallel_size");
  if (count == nullptr) {
    if (draft.whole(ranks).value_or(1) > 1) draft.refuse(*ranks, kWhyNoExperts);
    return;
  }
  draft.take("model.num_experts", count);
  draft.take("model.moe_hidden_dim", "moe_ffn_hidden_size");
  for (const ForeignKey* key : draft.keys_under("moe_")) {
    const bool of_speed = std::any_of(std::begin(kOfSpeed), std::end(kOfSpeed),
                                      [&](std::string_view begin) { return key->name.starts_with(begin); });
    const bool is_read = std::find(std::begin(kRead), std::end(kRead), key->name) != std::end(kRead);
    const std::string text = key->value.text();
    if (!of_speed && !is_read && text != "false" && text != "False" && text != "None")
      draft.refuse(*key, "Hearth's mixtures of experts have no such option");
  }
  import_dense_layers(draft);
  import_shared(draft);
  import_router(draft);
  import_router_losses(draft);
  if (!draft.options().layout || draft.whole(ranks).value_or(1) == 1) return;
  draft.take("parallelism.expert_parallel_degree", ranks, "each rank has whole experts");
}

}  // namespace hearth::config
