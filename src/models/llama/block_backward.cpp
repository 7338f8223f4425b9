// SPDX-License-Identifier: Apache-2.0
// Backward. The gradient of a sum is the gradient of both summands: of the branch and of the stream before it.
#include "models/llama/block.h"

namespace hearth::models {

void LlamaBlock::backward(Program& p, const Ref& dstream, Recompute level) {
  const bool again = level == Recompute::kBlock;
  if (again) {
    if (of_attention_.norms_input) norm_again(p, of_attention_, entry_);
    attend(p, true);
    add_branch_of_attention(p, true);
    gate_and_up(p, true);
  } else if (level != Recompute::kNone && norms_inputs()) {
    norm_again(p, of_ffn_, middle_);
  }
  // kNone keeps `gated`, although computing it again is nearly free: "none" should mean what it says. The norm of an
  // output needs the output, so w2's product is computed again, too.
  bool has_gated = level == Recompute::kNone;
  if (again && norms_outputs()) {
    leave_ffn(p, true);
    has_gated = true;
  }
  feed_forward_backward(p, output_gradient(p, of_ffn_, dstream), has_gated);
  input_gradient(p, of_ffn_, dstream, middle_);

  if (level != Recompute::kNone && of_attention_.norms_input) norm_again(p, of_attention_, entry_);
  if (level == Recompute::kAttention) attend(p, true);
  attention_backward(p, output_gradient(p, of_attention_, dstream), level);
  input_gradient(p, of_attention_, dstream, entry_);
}

void LlamaBlock::norm_again(Program& p, const Branch& branch, const Ref& x) {
  p.step("norm", /*is_repeated=*/true);
  p.add(NormForward{s_.norm, branch.input, branch.input_statistics, x, branch.input_norm});
}

// The gradient of a branch's last product: dstream, or what the multiplier and the norm behind the product make of it.
// In halves, weight_gradients finds it in branch.gradient.
Ref LlamaBlock::output_gradient(Program& p, const Branch& branch, const Ref& dstream) {
  // Nothing else needs input_gradient until the branch's end.
  const Ref own = p.in_halves() ? branch.gradient : input_gradient_;
  Ref doutput = dstream;
  if (scales_branches()) {
    p.step("residual multiplier's gradient");
    p.add(Scale{own, doutput, s_.residual_multiplier});
    doutput = own;
  }
  if (norms_outputs()) {
    p.step("the norm's gradient");
    p.add(NormGradient{s_.norm, own, doutput, branch.output, branch.output_statistics, branch.output_norm});
    doutput = own;
  }
  if (p.in_halves() && doutput == dstream) {
    p.step(branch.product_gradient);
    p.add(Copy{own, dstream});
  }
  if (branch.bias.exists()) {
    p.step("the bias's gradient");
    p.add(BiasGradient{branch.bias, doutput});
  }
  return doutput;
}

// Adds the gradient of a branch's input x to the stream's.
void LlamaBlock::input_gradient(Program& p, const Branch& branch, const Ref& dstream, const Ref& x) {
  if (!branch.norms_input) {
    p.step("sum's gradient");
    p.add(Add{dstream, input_gradient_});
    return;
  }
  p.step("the norm's gradient");
  p.add(NormGradient{s_.norm, dstream, input_gradient_, x, branch.input_statistics, branch.input_norm, /*adds=*/true});
}

// The gradient of w2's output -> input_gradient, the gradient of ffn_input.
void LlamaBlock::feed_forward_backward(Program& p, const Ref& doutput, bool has_gated) {
  if (experts_) return experts_->backward(p, input_gradient_, doutput, ffn_input());
  p.step("w2's input gradient");
  const Ref dbranch = p.all_rows(doutput);
  p.add(LinearInputGradient{gated_gradient_, dbranch, w2_});
  // gate_up is not needed again. If forward did not keep `gated`, it is computed again, over its gradient unless it is
  // read later.
  const Ref gated = has_gated || p.in_halves() ? gated_ : gated_gradient_;
  p.step(is_swiglu() ? "swiglu's gradient" : "activation's gradient");
  p.add(ActivateGradient{s_.activation, gate_up_, gated_gradient_, has_gated ? Ref{} : gated});
  if (b13_.exists()) {
    p.step("the biases' gradients");
    p.add(BiasGradient{b13_, gate_up_});
  }
  if (p.in_halves()) {
    p.step(s_.gated_ffn ? "w1's and w3's input gradient" : "w1's input gradient");
    p.add(LinearInputGradient{p.summands(input_gradient_), gate_up_, w13_});
    return p.sum_rows(input_gradient_);
  }
  p.step("w2's gradient");
  p.add(LinearWeightGradient{w2_, dbranch, gated});
  p.step(first_gradients());
  p.linear_gradients(input_gradient_, gate_up_, ffn_input(), w13_);
}

// The gradient of wo's output -> input_gradient, the gradient of attention_input.
void LlamaBlock::attention_backward(Program& p, const Ref& doutput, Recompute level) {
  p.step(p.in_halves() ? "wo's input gradient" : "wo's gradients");
  const Ref dbranch = p.all_rows(doutput);
  // The gated output is nearly free to compute again, and so are values without zeros.
  if (gates_attention() && !p.in_halves()) p.add(Gate{gated_attention_, attention_, attention_gate_});
  if (has_zeros() && !p.in_halves()) p.add(DropZeros{values_, attention_});
  if (!p.in_halves()) p.add(LinearWeightGradient{wo_, dbranch, wo_input()});
  p.add(LinearInputGradient{has_zeros() ? values_gradient_ : attention_gradient_, dbranch, wo_});
  if (has_zeros()) p.add(AddZeros{attention_gradient_, values_gradient_});
  if (gates_attention()) {
    p.step("gradient of attention's gate");
    p.add(GateGradient{attention_gradient_, attention_gate_, attention_});
  }
  if (shares_heads()) {
    p.step("exchange of heads");
    p.add(RowsToHeads{attention_heads_gradient_, attention_gradient_, exchange_, /*has_keys=*/false});
  }
  if (level < Recompute::kAttention) gather_keys(p);  // else they are still there

  p.step("attention's gradient");
  const int64_t q = s_.attention_heads() * s_.K, k = s_.attention_key_heads() * s_.K;
  const Ref dqkv = shares_heads() ? qkv_heads_gradient_ : qkv_gradient_;
  const Ref keys_values = shares_keys() ? keys_values_ : qkv_.part(q, 2 * k);
  const Ref dkeys_values = shares_keys() ? keys_values_gradient_ : dqkv.part(q, 2 * k);
  const Ref dout = shares_heads() ? attention_heads_gradient_ : attention_gradient_;
  const Ref out = shares_heads() ? attention_heads_ : attention_;
  if (sinks_.exists()) p.add(SinksGradient{sinks_, dout, out, log_sum_exp_});
  p.add(AttentionGradient{reach(), score_scale(), dqkv.part(0, q), dkeys_values.part(0, k), dkeys_values.part(k, k),
                          dout, out, log_sum_exp_, qkv_.part(0, q), keys_values.part(0, k), keys_values.part(k, k)});
  if (shares_keys()) {
    p.step("sum of the keys' and values' gradients");
    p.add(SumKeyGradients{dqkv, keys_values_gradient_, key_exchange_});
  }
  rotate(p, dqkv, /*is_gradient=*/true);
  if (shares_heads()) {
    p.step("exchange of heads");
    p.add(HeadsToRows{qkv_gradient_, qkv_heads_gradient_, exchange_, /*has_keys=*/true});
  }

  if (latent_) {
    if (level == Recompute::kNorms) latent_->norm_again(p);  // else its rows are there
    return latent_->backward(p, input_gradient_, qkv_gradient_, attention_input());
  }
  if (s_.qk_norm) norm_heads_backward(p);
  if (s_.qkv_bias) {
    p.step("the biases' gradients");
    p.add(BiasGradient{bqkv_, qkv_gradient_});
  }
  if (p.in_halves()) {
    p.step("wq's, wk's and wv's input gradient");
    p.add(LinearInputGradient{p.summands(input_gradient_), qkv_gradient_, wqkv_});
    p.sum_rows(input_gradient_);
  } else {
    p.step("wq's, wk's and wv's gradients");
    p.linear_gradients(input_gradient_, qkv_gradient_, attention_input(), wqkv_);
  }
  if (gates_attention()) gate_backward(p);
}

// Adds the gradient that attention's input has from the gate.
void LlamaBlock::gate_backward(Program& p) {
  p.step("wg's gradients");
  if (p.in_halves()) {
    p.add(LinearInputGradient{p.summands(gate_input_gradient_), attention_gate_, wg_});
    p.sum_rows(gate_input_gradient_);
  } else {
    p.linear_gradients(gate_input_gradient_, attention_gate_, attention_input(), wg_);
  }
  p.add(Add{input_gradient_, gate_input_gradient_});
}

// qkv_gradient, of normed queries and keys, becomes the gradient of those before the norms.
void LlamaBlock::norm_heads_backward(Program& p) {
  const int64_t queries = s_.H * s_.K, keys = s_.G * s_.K, T = p.tokens();
  const Ref dq = qkv_gradient_.part(0, queries), dk = qkv_gradient_.part(queries, keys);
  const Ref q = head_norm_input_.part(0, queries), k = head_norm_input_.part(queries, keys);
  p.step("the head norms' gradients");
  if (norms_each_head()) {
    const Ref of_q = head_norm_statistics_.part(0, T * s_.H), of_k = head_norm_statistics_.part(T * s_.H, T * s_.G);
    p.add(NormGradient{s_.head_norm(), dq, dq, q, of_q, q_norm_, /*adds=*/false, s_.K});
    p.add(NormGradient{s_.head_norm(), dk, dk, k, of_k, k_norm_, /*adds=*/false, s_.K});
    return;
  }
  const Ref of_q = head_norm_statistics_.part(0, T), of_k = head_norm_statistics_.part(T, T);
  if (!shares_norms_of_heads()) {
    p.add(NormGradient{s_.head_norm(), dq, dq, q, of_q, q_norm_});
    p.add(NormGradient{s_.head_norm(), dk, dk, k, of_k, k_norm_});
    return;
  }
  const Ref q_dots = head_norm_dots_.part(0, T), k_dots = head_norm_dots_.part(T, T);
  p.add(NormPartDots{s_.head_norm(), q_dots, dq, q, of_q, q_norm_});
  p.add(NormPartDots{s_.head_norm(), k_dots, dk, k, of_k, k_norm_});
  p.add(SumOverRanks{head_norm_dots_});
  p.add(NormPartGradient{s_.head_norm(), queries * s_.tensor.size, dq, dq, q, of_q, q_dots, q_norm_});
  p.add(NormPartGradient{s_.head_norm(), keys * s_.tensor.size, dk, dk, k, of_k, k_dots, k_norm_});
}

void LlamaBlock::weight_gradients(Program& p) {
  if (experts_) {
    experts_->weight_gradients(p, of_ffn_.gradient, ffn_input());
  } else {
    p.step("w2's gradient");
    p.add(LinearWeightGradient{w2_, p.all_rows(of_ffn_.gradient), gated_});
    p.step(first_gradients());
    p.add(LinearWeightGradient{w13_, gate_up_, p.all_rows(ffn_input())});
  }
  p.step("wo's gradient");
  p.add(LinearWeightGradient{wo_, p.all_rows(of_attention_.gradient), wo_input()});
  p.step(latent_ ? "gradients of the latents' products" : "wq's, wk's and wv's gradients");
  const Ref input = p.all_rows(attention_input());
  if (latent_) return latent_->weight_gradients(p, qkv_gradient_, input);
  p.add(LinearWeightGradient{wqkv_, qkv_gradient_, input});
  if (gates_attention()) p.add(LinearWeightGradient{wg_, attention_gate_, input});
}

}  // namespace hearth::models
