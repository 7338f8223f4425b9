// SPDX-License-Identifier: Apache-2.0
// A mixture of experts in place of a block's feed-forward:
//
//   y = sum over the chosen experts e of  p_e w2_e (silu(w1_e x) w3_e x)
//   s = softmax(gate x); the k experts with the largest s are chosen; p_e = s_e, or s_e / (sum of the chosen s)
//
// Options of DeepSeek-V3 (arXiv 2412.19437): s = sigmoid(gate x); a bias is added to s where experts are chosen, but
// not in p; experts are chosen within a token's best groups; and shared experts, a feed-forward for all tokens, are
// added to y. As all matrices without experts, tensor-parallel ranks have parts of it.
//
// gpt-oss (arXiv 2508.10925) has biases: of the gate, before the softmax, and of all matrices of an expert. An expert's
// output, with its bias, is what p_e multiplies.
//
// No token is dropped, whatever the experts' loads (MegaBlocks, arXiv 2211.15841). Rows are sorted by expert, and each
// expert multiplies its own. Products of the gate are in float32. Backward reads the routing that forward has left, and
// never computes it again: a tie that falls otherwise would give another model.
//
// Tensor-parallel ranks have columns of every expert, and each of them routes all rows. Expert-parallel ranks have
// different experts, each as a whole: a rank routes its own rows and sends them to the ranks that have their experts
// (GShard, arXiv 2006.16668). Sources: arXiv 1701.06538, Switch Transformer arXiv 2101.03961, Qwen3 arXiv 2505.09388,
// OLMoE arXiv 2409.02060.
#pragma once

#include "models/parameter_list.h"
#include "models/program.h"

namespace hearth::models {

class Experts {
 public:
  // The laws of w1, w3, and of the matrices that write to the residual stream.
  struct Laws {
    Law in, w3, out;
  };
  Experts(const ModelShape& layer, ParameterList& list, const Laws& laws);

  void add_kept_buffers(Program& p, int64_t layer);
  void add_working_buffers(Program& p, int64_t layer);

  // Chooses the experts of the rows x, and computes w1 x and w3 x. Again: with the routing that is there.
  void expand(Program& p, const Ref& x, bool is_repeated);
  // out = the sum of each token's experts, from what expand has left.
  void contract(Program& p, const Ref& out, bool is_repeated);
  // dx = the gradient of x, and the gradients of the weights, unless these come later.
  void backward(Program& p, const Ref& dx, const Ref& dout, const Ref& x);
  void weight_gradients(Program& p, const Ref& dout, const Ref& x);

 private:
  bool shares() const { return s_.shares_experts(); }
  // How many tokens this rank routes.
  int64_t routed(const Program& p) const { return shares() ? p.rows() : p.tokens(); }
  SequenceRows sequence_rows(const Program& p) const;
  // The rows that this rank routes.
  Ref routed_rows(Program& p, const Ref& x) const { return shares() ? x : p.all_rows(x); }
  Ref summands(const Program& p, const Ref& out) const { return shares() ? out : p.summands(out); }
  void sum_rows(Program& p, const Ref& out) const;
  // rows = x by the slots of the experts that are here.
  void send(Program& p, const Ref& rows, const Ref& x);
  // out = the sum of each token's rows.
  void bring_back(Program& p, const Ref& out, const Ref& rows);
  // The feed-forward for all tokens.
  bool has_shared() const { return shared_w2_.exists(); }
  void add_shared(ParameterList& list, const Laws& laws);
  void share_rows(Program& p, const Ref& out);
  Ref shared_gradients(Program& p, const Ref& dout);
  void share_input_gradient(Program& p, const Ref& dx);
  void gradients_in(Program& p, const Ref& x);
  // Tensor-parallel ranks have summands of an expert's output: one of them adds the bias.
  bool adds_output_bias() const { return b2_.exists() && (shares() || s_.tensor.rank == 0); }
  void output_weight_gradients(Program& p, const Ref& gated);

  const ModelShape s_;  // of the layer alone
  const int64_t E_;
  const Router router_;
  Weight gate_, logit_bias_, bias_, w13_, w2_, b13_, b2_;
  Weight shared_w13_{}, shared_w2_{};

  // Buffers. T: the tokens that this rank routes. N = T * k rows: one for each choice. M: the rows of the experts that
  // are here; N, or what arrives.
  Routing routing_;
  Arrivals arrivals_;
  Ref factors_, ends_;  // of the experts that are here: the routing's, or the arrivals'
  Ref input_;           // [M, D]: x by slots, where it arrives; else x is dispatched again
  Ref gate_up_;         // [M, 2*F]
  Ref gated_;           // [M, F]: input of w2, of the layer only if computed in halves
  Ref dout_;            // [M, D]: the gradient of the output by slots, of the layer if in halves and it arrives
  // Of all layers.
  Ref rows_;                        // [M, D]
  Ref row_outputs_;                 // [M, D]: of w2; later the gradient of x's rows
  Ref gated_gradient_, activated_;  // [M, F]
  Ref factors_gradient_;            // [M, 1]
  Ref logits_gradient_;             // [T, E], of the layer if computed in halves
  Ref sent_;                        // [N, D]: by this rank's slots
  Ref sent_factors_gradient_;       // [N, 1]
  Ref arrived_, arrived_factors_;   // [M, D], [M, 1]: scratch
  // Of shared experts, for all rows: [T, 2*F], [T, F]. Those of a layer are kept as the experts' own are.
  Ref shared_gate_up_, shared_gated_, shared_gated_gradient_;
};

}  // namespace hearth::models
