// The block of Llama and of the families that differ from it by options, pre-norm:
//
//   x = x + wo attention(rope(wq y), rope(wk y), wv y)   with y = norm(x)
//   x = x + w2 (silu(w1 y) w3 y)                         with y = norm(x)
//
// Sources: Llama arXiv 2302.13971, grouped queries arXiv 2305.13245, RoPE arXiv 2104.09864, SwiGLU arXiv 2002.05202.
// Options: biases of q, k and v (Qwen2, arXiv 2407.10671), norms of every head of q and k (Qwen3, arXiv 2505.09388),
// norms without weights (OLMo, arXiv 2402.00838), attention to both sides.
#pragma once

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
  void attention_norm_again(Program& p);
  void attend(Program& p, bool is_repeated);
  void add_branch_of_attention(Program& p, bool is_repeated);
  void feed_forward_norm(Program& p, bool is_repeated);
  void gate_and_up(Program& p, bool is_repeated);
  void feed_forward_backward(Program& p, const Ref& dstream, Recompute level);
  void attention_backward(Program& p, const Ref& dstream, Recompute level);
  void gather_keys(Program& p);

  bool shares_heads() const { return s_.head_ranks() > 1; }  // context-parallel ranks exchange positions for heads
  bool shares_keys() const { return s_.key_ranks > 1; }      // and gather keys and values of other positions

  const ModelShape s_;

  // Parameters.
  Weight attention_norm_, wqkv_, bqkv_, q_norm_, k_norm_, wo_, ffn_norm_, w13_, w2_;

  // Buffers of the layer. T: this rank's tokens; rows: its rows of the stream; W: its queries in attention.
  Ref entry_;                                            // [rows, D]  the stream before the block
  Ref attention_statistics_, attention_input_;           // [1 or 2, rows]; [rows, D]  of the norm
  Ref qkv_;                                              // [W, heads of q, k, v]  rotated
  Ref head_norm_input_, head_norm_statistics_;           // [T, (H+G)*K]; [1, T*(H+G)]  before the norms of heads
  Ref attention_, log_sum_exp_;                          // [T, H*K]: input of wo; [B, heads, W / B]
  Ref middle_;                                           // [rows, D]  the stream after attention
  Ref ffn_statistics_, ffn_input_, gate_up_, gated_;     // gate_up [T, 2*F]: w1 x | w3 x; gated [T, F]: input of w2
  Ref attention_heads_;                                  // attention's output, where ranks exchange heads
  Ref attention_branch_gradient_, ffn_branch_gradient_;  // [rows, D]  only if gradients are computed in halves
  // Of all layers.
  Ref branch_, input_gradient_;                             // [rows, D]
  Ref qkv_gradient_, attention_gradient_, gated_gradient_;  // as what they are the gradients of
  Ref attention_heads_gradient_, qkv_heads_gradient_;
  Ref qkv_rows_, exchange_;                                // before the exchange of heads; what one sequence sends
  Ref keys_values_, keys_values_gradient_, key_exchange_;  // [B*S, 2*G*K] of all positions
};

}  // namespace hearth::models
