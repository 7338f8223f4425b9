// SPDX-License-Identifier: Apache-2.0
// A mixture of experts in place of a block's feed-forward:
//
//   y = sum over the chosen experts e of  p_e w2_e (silu(w1_e x) w3_e x)
//   s = softmax(gate x); the k experts with the largest s are chosen; p_e = s_e, or s_e / (sum of the chosen s)
//
// No token is dropped, whatever the experts' loads (MegaBlocks, arXiv 2211.15841). Rows are sorted by expert, and each
// expert multiplies its own. Products of the gate are in float32. Backward reads the routing that forward has left, and
// never computes it again: a tie that falls otherwise would give another model.
//
// Tensor-parallel ranks have columns of every expert, and each of them routes all rows. Sources: arXiv 1701.06538,
// Switch Transformer arXiv 2101.03961, Qwen3 arXiv 2505.09388, OLMoE arXiv 2409.02060.
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
  void gradients_in(Program& p, const Ref& x);

  const ModelShape s_;  // of the layer alone
  const int64_t E_;
  const Router router_;
  Weight gate_, w13_, w2_;

  // Buffers. N = T * k rows: one for each choice.
  Routing routing_;
  Ref gate_up_;  // [N, 2*F]
  Ref gated_;    // [N, F]: input of w2, of the layer only if computed in halves
  // Of all layers.
  Ref rows_;                        // [N, D]: x, or the gradient of the output, by slots
  Ref row_outputs_;                 // [N, D]: of w2; later the gradient of x's rows
  Ref gated_gradient_, activated_;  // [N, F]
  Ref factors_gradient_;            // [T, k]
  Ref logits_gradient_;             // [T, E], of the layer if computed in halves
};

}  // namespace hearth::models
