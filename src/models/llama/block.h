// The block of Llama and of the families that differ from it by options:
//
//   x = x + wo attention(rope(wq y), rope(wk y), wv y)   with y = norm(x)
//   x = x + w2 (silu(w1 y) w3 y)                         with y = norm(x)
//
// Sources: Llama arXiv 2302.13971, grouped queries arXiv 2305.13245, RoPE arXiv 2104.09864, SwiGLU arXiv 2002.05202.
// Options: biases of q, k and v (Qwen2, arXiv 2407.10671), norms of every head of q and k (Qwen3, arXiv 2505.09388),
// norms without weights (OLMo, arXiv 2402.00838), attention to both sides; and of OLMo 2 (arXiv 2501.00656): norms of
// all heads of q, and of k, as one row, and norms of the branches' outputs, x = x + norm(wo ...), in place of inputs.
#pragma once

#include <string_view>

#include "models/block.h"

namespace hearth::models {

class LlamaBlock : public Block {
 public:
  // `depth`: the layer's number in the model, from 0.
  LlamaBlock(const ModelShape& shape, int64_t depth);

  void add_kept_buffers(Program& p, int64_t layer) override;
  void add_working_buffers(Program& p, int64_t layer) override;
  Stream forward(Program& p, const Stream& before, const Ref& entry) override;
  void backward(Program& p, const Ref& dstream, Recompute level) override;
  void weight_gradients(Program& p) override;

 private:
  void attend(Program& p, bool is_repeated);
  void gather_keys(Program& p);
  void norm_heads(Program& p, const Ref& product);
  void leave_branch(Program& p, std::string_view name, const Ref& x, const Weight& w, const Ref& normed,
                    const Ref& statistics, const Weight& norm, bool is_repeated);
  void add_branch(Program& p, const Ref& sum, const Ref& x, const Ref& branch, bool is_repeated);
  void add_branch_of_attention(Program& p, bool is_repeated);
  void gate_and_up(Program& p, bool is_repeated);
  void down(Program& p, bool is_repeated);

  void norm_again(Program& p, const Ref& out, const Ref& statistics, const Ref& x, const Weight& weight);
  Ref output_gradient(Program& p, const Ref& dstream, const Ref& output, const Ref& statistics, const Weight& norm,
                      std::string_view name, const Ref& kept);
  void input_gradient(Program& p, const Ref& dstream, const Ref& x, const Ref& statistics, const Weight& norm);
  void feed_forward_backward(Program& p, const Ref& doutput, bool has_gated);
  void attention_backward(Program& p, const Ref& doutput, Recompute level);
  void norm_heads_backward(Program& p);

  bool norms_inputs() const { return s_.norm_placement == config::NormPlacement::kInputs; }
  bool norms_each_head() const { return s_.qk_norm_scope == config::QkNormScope::kHead; }
  bool shares_norms_of_heads() const { return s_.qk_norm && !norms_each_head() && s_.tensor.size > 1; }
  Ref attention_input() const { return norms_inputs() ? attention_normed_ : entry_; }
  Ref ffn_input() const { return norms_inputs() ? ffn_normed_ : middle_; }
  bool shares_heads() const { return s_.head_ranks() > 1; }  // context-parallel ranks exchange positions for heads
  bool shares_keys() const { return s_.key_ranks > 1; }      // and gather keys and values of other positions

  const ModelShape s_;

  // Parameters.
  Weight attention_norm_, wqkv_, bqkv_, q_norm_, k_norm_, wo_, post_attention_norm_;
  Weight ffn_norm_, w13_, w2_, post_ffn_norm_;

  // Buffers of the layer. T: this rank's tokens; rows: its rows of the stream; W: its queries in attention.
  Ref entry_;                                    // [rows, D]  the stream before the block
  Ref attention_statistics_, attention_normed_;  // [1 or 2, rows]; [rows, D]  the norm's result, or OLMo 2's input
  Ref qkv_;                                      // [W, heads of q, k, v]  rotated
  Ref head_norm_input_, head_norm_statistics_;   // [T, (H+G)*K]; [1, T*(H+G)] or [1, 2*T]
  Ref attention_, log_sum_exp_;                  // [T, H*K]: input of wo; [B, heads, W / B]
  Ref middle_;                                   // [rows, D]  the stream after attention
  Ref ffn_statistics_, ffn_normed_, gate_up_, gated_;    // gate_up [T, 2*F]: w1 x | w3 x; gated [T, F]: input of w2
  Ref attention_heads_;                                  // attention's output, where ranks exchange heads
  Ref attention_branch_gradient_, ffn_branch_gradient_;  // [rows, D]  only if gradients are computed in halves
  // Of all layers.
  Ref branch_, input_gradient_;                             // [rows, D]
  Ref qkv_gradient_, attention_gradient_, gated_gradient_;  // as what they are the gradients of
  Ref attention_heads_gradient_, qkv_heads_gradient_;
  Ref head_norm_dots_;                                     // [1, 2*T]
  Ref qkv_rows_, exchange_;                                // before the exchange of heads; what one sequence sends
  Ref keys_values_, keys_values_gradient_, key_exchange_;  // [B*S, 2*G*K] of all positions
};

}  // namespace hearth::models
