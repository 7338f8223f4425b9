// SPDX-License-Identifier: Apache-2.0
// The block of Llama and of the families that differ from it by options:
//
//   x = x + wo attention(rope(wq y), rope(wk y), wv y)   with y = norm(x)
//   x = x + w2 (silu(w1 y) w3 y)                         with y = norm(x)
//
// Sources: Llama arXiv 2302.13971, grouped queries arXiv 2305.13245, RoPE arXiv 2104.09864, SwiGLU arXiv 2002.05202.
// Options: biases of q, k and v (Qwen2, arXiv 2407.10671), norms of every head of q and k (Qwen3, arXiv 2505.09388),
// norms without weights (OLMo, arXiv 2402.00838), attention to both sides; and of OLMo 2 (arXiv 2501.00656): norms of
// all heads of q, and of k, as one row, and norms of the branches' outputs, x = x + norm(wo ...), in place of inputs;
// layers without rope (SmolLM3, arXiv 2501.18795); norms of inputs and of outputs (Gemma 2, arXiv 2408.00118); biases
// of the other matrices; other functions than silu, and w2 f(w1 y) without w3 (AFM); multipliers of both branches and
// of the scores of attention (Granite 3); and a first layer without a norm of attention's input (ModernBERT, arXiv
// 2412.13663); a gate of attention's output, wo (attention(...) * sigmoid(wg y)) (Trinity, arXiv 2505.06708); and
// sinks of attention (gpt-oss, arXiv 2508.10925): softmax over a query's scores and one number of the head.
// models/rope.h has the options of rope, models/moe/ the feed-forward of experts, and models/mla/ latent attention.
#pragma once

#include <optional>
#include <string_view>

#include "models/block.h"
#include "models/mla/latent.h"
#include "models/moe/experts.h"

namespace hearth::models {

class LlamaBlock : public Block {
 public:
  explicit LlamaBlock(const ModelShape& layer);

  void add_kept_buffers(Program& p, int64_t layer) override;
  void add_working_buffers(Program& p, int64_t layer) override;
  ResidualStream forward(Program& p, const ResidualStream& before, const Ref& entry) override;
  void backward(Program& p, const Ref& dstream, Recompute level) override;
  void weight_gradients(Program& p) override;

 private:
  struct BranchNames {
    std::string_view input_statistics, input, output_statistics, output;  // buffers
  };
  // One of the block's two branches: what is around its products.
  struct Branch {
    std::string_view product, product_gradient;  // steps of the last product, and of its output's gradient
    bool norms_input = false;
    Weight input_norm{}, output_norm{};
    Weight bias{};            // of the last product
    Ref input_statistics{};   // [1 or 2, rows]
    Ref input{};              // [rows, D]  what the input's norm gives
    Ref output_statistics{};  // [1 or 2, rows]
    Ref output{};             // [rows, D]  the last product, which the output's norm takes
    Ref gradient{};           // [rows, D]  of the last product, only if computed in halves
  };

  void add_feed_forward(const Law& in, const Law& w3, const Law& out);
  Law norm_law() const;
  Weight add_norm(std::string_view name);
  void attend(Program& p, bool is_repeated);
  void rotate(Program& p, const Ref& qkv, bool is_gradient);
  void gather_keys(Program& p);
  void norm_heads(Program& p, const Ref& product);
  void leave(Program& p, const Branch& branch, const Ref& x, const Weight& w, bool is_repeated);
  void scale_branch(Program& p, bool is_repeated);
  void add_branch(Program& p, const Ref& sum, const Ref& x, const Ref& branch, bool is_repeated);
  void add_branch_of_attention(Program& p, bool is_repeated);
  void finish(Program& p, const Branch& branch, const Ref& out, bool is_repeated);
  void gate_and_up(Program& p, bool is_repeated);
  void activate(Program& p, bool is_repeated);
  void leave_ffn(Program& p, bool is_repeated);

  void norm_again(Program& p, const Branch& branch, const Ref& x);
  Ref output_gradient(Program& p, const Branch& branch, const Ref& dstream);
  void input_gradient(Program& p, const Branch& branch, const Ref& dstream, const Ref& x);
  void feed_forward_backward(Program& p, const Ref& doutput, bool has_gated);
  void attention_backward(Program& p, const Ref& doutput, Recompute level);
  void gate_backward(Program& p);
  void norm_heads_backward(Program& p);

  bool norms_inputs() const { return s_.norm_placement != config::NormPlacement::kOutputs; }
  bool norms_outputs() const { return s_.norm_placement != config::NormPlacement::kInputs; }
  bool is_swiglu() const { return s_.gated_ffn && s_.activation == config::Activation::kSilu; }
  std::string_view first_gradients() const { return s_.gated_ffn ? "w1's and w3's gradients" : "w1's gradient"; }
  bool scales_branches() const { return s_.residual_multiplier != 1; }
  bool norms_each_head() const { return s_.qk_norm_scope == config::QkNormScope::kHead; }
  bool shares_norms_of_heads() const { return s_.qk_norm && !norms_each_head() && s_.tensor.size > 1; }
  bool gates_attention() const { return s_.attention_gate; }
  bool has_zeros() const { return s_.value_width() < s_.K; }  // behind each value
  Ref wo_input() const { return gates_attention() ? gated_attention_ : has_zeros() ? values_ : attention_; }
  Ref attention_input() const { return of_attention_.norms_input ? of_attention_.input : entry_; }
  Ref ffn_input() const { return of_ffn_.norms_input ? of_ffn_.input : middle_; }
  double score_scale() const { return s_.score_scale(s_.layers.front()); }
  int64_t reach() const { return s_.reach(s_.layers.front()); }
  bool shares_heads() const { return s_.head_ranks() > 1; }  // context-parallel ranks exchange positions for heads
  bool shares_keys() const { return s_.key_ranks > 1; }      // and gather keys and values of other positions

  const ModelShape s_;  // of the layer alone

  // Parameters, besides the branches' norms.
  Weight wqkv_, bqkv_, wg_, q_norm_, k_norm_, sinks_, wo_, w13_, b13_, w2_;
  std::optional<Latent> latent_;    // in place of wq, wk and wv
  std::optional<Experts> experts_;  // in place of w1, w2 and w3

  // Buffers of the layer. T: this rank's tokens; rows: its rows of the stream; W: its queries in attention.
  Branch of_attention_{"wo", "wo's output gradient", norms_inputs() && s_.layers.front().norms_attention};
  Branch of_ffn_{"w2", "w2's output gradient", norms_inputs()};
  Ref entry_;                                   // [rows, D]  the stream before the block
  Ref qkv_;                                     // [W, heads of q, k, v]  rotated
  Ref head_norm_input_, head_norm_statistics_;  // [T, (H+G)*K]; [1, T*(H+G)] or [1, 2*T]
  Ref attention_, log_sum_exp_;                 // [T, H*K]: input of wo, if nothing gates it; [B, heads, W / B]
  Ref attention_gate_, gated_attention_;        // [T, H*K]: wg y; input of wo, of the layer only if in halves
  Ref values_;                                  // [T, H*V]: attention without zeros, of the layer only if in halves
  Ref middle_;                                  // [rows, D]  the stream after attention
  Ref gate_up_, gated_;                         // [T, 2*F]: w1 x | w3 x, or [T, F]: w1 x; [T, F]: input of w2
  Ref attention_heads_;                         // attention's output, where ranks exchange heads
  // Of all layers.
  Ref branch_, input_gradient_;                             // [rows, D]
  Ref gate_input_gradient_;                                 // [rows, D]
  Ref qkv_gradient_, attention_gradient_, gated_gradient_;  // as what they are the gradients of
  Ref values_gradient_;                                     // [T, H*V]
  Ref attention_heads_gradient_, qkv_heads_gradient_;
  Ref head_norm_dots_;                                     // [1, 2*T]
  Ref qkv_rows_, exchange_;                                // before the exchange of heads; what one sequence sends
  Ref keys_values_, keys_values_gradient_, key_exchange_;  // [B*S, 2*G*K] of all positions
};

}  // namespace hearth::models
