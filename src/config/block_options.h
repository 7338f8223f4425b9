// SPDX-License-Identifier: Apache-2.0
// What a model's blocks compute, besides their sizes: keys of [model], which the blocks of src/models read as they are.
// An option is a member here, a row in config/field_table.cpp, and code in the block.
#pragma once

#include <cstdint>

#include "config/choices.h"

namespace hearth::config {

// Where a block has its norms: on its branches' inputs, on their outputs (OLMo 2), or on both (Gemma 2).
enum class NormPlacement { kInputs, kOutputs, kBoth };
constexpr auto choice_names(NormPlacement) { return choices("inputs", "outputs", "both"); }
// What qk_norm norms as one row: each head, or all query heads together and all key heads together (OLMo 2).
enum class QkNormScope { kHead, kAllHeads };
constexpr auto choice_names(QkNormScope) { return choices("head", "all_heads"); }

// The function between the matrices of the feed-forward (ops/activation.h).
enum class Activation { kSilu, kGelu, kGeluTanh, kRelu2, kClampedSwiglu };
constexpr auto choice_names(Activation) { return choices("silu", "gelu", "gelu_tanh", "relu2", "clamped_swiglu"); }

// How a router's products become the scores of experts (torchtitan's names).
enum class ScoreFunc { kSoftmax, kSigmoid };
constexpr auto choice_names(ScoreFunc) { return choices("softmax", "sigmoid"); }

struct BlockOptions {
  NormPlacement norm_placement = NormPlacement::kInputs;
  bool qkv_bias = false;         // q, k and v have biases
  bool output_bias = false;      // attention's output matrix has a bias
  bool ffn_bias = false;         // the matrices of the feed-forward have biases, and those of experts
  bool qk_norm = false;          // queries and keys are normed before their rotation
  bool attention_gate = false;   // attention's output is multiplied by sigmoids of a product of its input (Trinity)
  bool attention_sinks = false;  // the softmax of attention has one more score, a number of each head (gpt-oss)
  QkNormScope qk_norm_scope = QkNormScope::kHead;
  Activation activation = Activation::kSilu;
  bool gated_ffn = true;                    // w2 (f(w1 y) w3 y); else w2 f(w1 y)
  double embedding_multiplier = 1;          // of token embeddings
  bool round_embedding_multiplier = false;  // to the type of the activations (Gemma)
  double residual_multiplier = 1;           // of both branches, where they join the stream
  double attention_multiplier = 0;          // of the scores; 0: 1 / sqrt(head width)
  double logits_divisor = 1;
  int64_t no_rope_layer_interval = 0;  // every n-th layer does not rotate queries and keys (SmolLM3); 0: all rotate
  bool embedding_norm = false;         // token embeddings are normed (ModernBERT)
  bool first_attention_norm = true;    // the first layer norms the input of its attention (ModernBERT: no)
  bool prediction_head = false;        // a product, gelu and a norm between the last norm and the output matrix (BERT)
  bool decoder_bias = false;           // logits have a bias (BERT)

  // Latent attention (models/mla/latent.h).
  int64_t kv_lora_rank = 0;  // width of the row that keys and values are products of; 0: no latent attention
  int64_t q_lora_rank = 0;   // the same of queries; 0: they are products of attention's input
  int64_t qk_nope_head_dim = 128, qk_rope_head_dim = 64;  // elements of a query and a key that stay, and that rotate
  int64_t v_head_dim = 128;                               // elements of a value
  bool has_latents() const { return kv_lora_rank > 0; }

  // A mixture of experts in place of the feed-forward (models/moe/experts.h).
  int64_t num_experts = 0;         // of a layer; 0: no layer has experts
  int64_t moe_top_k = 2;           // experts of a token
  int64_t num_shared_experts = 0;  // of every token, besides: one feed-forward, as wide as these
  ScoreFunc score_func = ScoreFunc::kSoftmax;
  bool router_bias = false;          // a bias is added to the products that become scores (gpt-oss)
  bool expert_bias = false;          // experts are chosen by score + bias, which follows their loads (DeepSeek-V3)
  int64_t num_expert_groups = 1;     // of neighbouring experts; 1: none
  int64_t num_limited_groups = 1;    // the groups that a token's experts may be in
  bool route_norm = false;           // the weights of a token's experts are divided by their sum
  double route_scale = 1;            // and multiplied by this
  double load_balance_coeff = 1e-3;  // of expert_bias
  double moe_aux_loss_coeff = 0;
  double moe_z_loss_coeff = 0;
  bool operator==(const BlockOptions&) const = default;
};

}  // namespace hearth::config
