// SPDX-License-Identifier: Apache-2.0
// Latent attention (DeepSeek-V2, arXiv 2405.04434): what is between a block's input y and its queries, keys and values.
//
//   q = wq_b norm(wq_a y), or wq y           of each head: N elements, then R elements that rotate
//   c | r = wkv_a y                          a row c, and R elements that rotate: a part of the key of every head
//   k_h | v_h = wkv_b norm(c)                of each head h: N and V elements
//   attention(rope(q_h), [k_h | rope(r)], v_h), with scores divided by sqrt(N + R)
//
// Attention itself computes heads of K = N + R elements, so K - V zeros fill up each value, and are dropped behind it.
// A cache of keys and values has them, too. The norms of latent rows add 1e-6 to the mean square, as in DeepSeek's code
// and in transformers, whatever the model's other norms add.
//
// Tensor-parallel ranks have whole heads of wq_b, wkv_b and wo. Each has all of wq_a, wkv_a and the norms, and computes
// the latent rows of all tokens. What a rank has of their gradients is the part of its own heads: a summand, as are the
// gradients of all weights that ranks have as a whole.
#pragma once

#include "models/parameter_list.h"
#include "models/program.h"

namespace hearth::models {

class Latent {
 public:
  // `in`: the law of all matrices here.
  Latent(const ModelShape& layer, ParameterList& list, const Law& in);

  void add_kept_buffers(Program& p, int64_t layer);
  void add_working_buffers(Program& p, int64_t layer);

  // qkv [T, (H+2H)*K] = queries, keys and values of the rows y [T, D], not rotated yet.
  void expand(Program& p, const Ref& qkv, const Ref& y, bool is_repeated);
  // Norms the latent rows that are there again.
  void norm_again(Program& p);
  // dy = the gradient of y, of this rank's own rows, and the gradients of the weights, unless these come later.
  void backward(Program& p, const Ref& dy, const Ref& dqkv, const Ref& y);
  // `y`: all rows.
  void weight_gradients(Program& p, const Ref& dqkv, const Ref& y);

 private:
  bool has_query_latent() const { return s_.q_lora_rank > 0; }
  // Columns of latent rows: the query's, c and r.
  Ref query_part(const Ref& rows) const { return rows.part(0, s_.q_lora_rank); }
  Ref key_part(const Ref& rows) const { return rows.part(s_.q_lora_rank, s_.kv_lora_rank); }
  Ref shared_part(const Ref& rows) const { return rows.part(s_.q_lora_rank + s_.kv_lora_rank, s_.qk_rope_head_dim); }
  Ref queries_of(const Ref& qkv) const { return qkv.part(0, s_.H * s_.K); }
  Ref keys_values_of(const Ref& qkv) const { return qkv.part(s_.H * s_.K, 2 * s_.H * s_.K); }
  void norm(Program& p);

  const ModelShape s_;  // of the layer alone
  Weight in_;           // wq_a and wkv_a, or wkv_a alone
  Weight wq_, wkv_b_;   // wq_: wq_b, or wq
  Weight q_norm_, kv_norm_;

  // Buffers of the layer. C: columns of latent rows.
  Ref latents_;           // [T, C]
  Ref statistics_;        // [1, 2*T] or [1, T]
  Ref normed_;            // [T, C - R]
  Ref heads_gradient_;    // [T, H*(N+V)]; of the layer only if computed in halves, as the next one
  Ref latents_gradient_;  // [T, C]
  // Of all layers.
  Ref heads_;                 // [T, H*(N+V)]
  Ref normed_gradient_;       // [T, C - R]
  Ref query_input_gradient_;  // [rows, D], without a query's latent
};

}  // namespace hearth::models
