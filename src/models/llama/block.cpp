// SPDX-License-Identifier: Apache-2.0
#include "models/llama/block.h"

#include <cmath>

namespace hearth::models {

LlamaBlock::LlamaBlock(const ModelShape& layer) : s_(layer), reach_(layer.reach(layer.layers.front())) {
  // torchtitan's Llama: std 0.02, and smaller with depth for the matrices that write to the residual stream (and for
  // w3, which torchtitan's code treats alike). Its truncation bounds are absolute: +-2.
  constexpr double kStd = 0.02, kBound = 2;
  const Initialization& init = s_.initialization;
  const int64_t depth = init.by_depth ? s_.stage.first + 1 : s_.stage.total;
  const double deep_std = kStd / std::sqrt(2.0 * static_cast<double>(depth));
  const Law in = init.torchtitan ? Law{Init::kTruncatedNormal, kStd, kBound} : Law{Init::kNormal, init.std};
  const Law w3 = init.torchtitan ? Law{Init::kTruncatedNormal, deep_std, kBound} : in;
  const Law out = init.torchtitan ? w3 : Law{Init::kNormal, init.output_std};

  const int64_t D = s_.D, Q = s_.H * s_.K, KV = s_.G * s_.K, F = s_.F();
  using enum Cut;
  const bool weighted = has_weight(s_.norm.type);
  if (norms_inputs() && weighted) of_attention_.norm = list_.add({{"attention_norm.weight", {D}}});
  wqkv_ = list_.add({{"attention.wq.weight", {Q, D}, kRows, in},
                     {"attention.wk.weight", {KV, D}, kRows, in},
                     {"attention.wv.weight", {KV, D}, kRows, in}});
  if (s_.qkv_bias) {
    bqkv_ = list_.add({{"attention.wq.bias", {Q}, kRows, {Init::kZeros}},
                       {"attention.wk.bias", {KV}, kRows, {Init::kZeros}},
                       {"attention.wv.bias", {KV}, kRows, {Init::kZeros}}});
  }
  if (s_.qk_norm) {
    const bool per_head = norms_each_head();
    q_norm_ = list_.add({{"attention.q_norm.weight", {per_head ? s_.K : Q}, per_head ? kNothing : kRows}});
    k_norm_ = list_.add({{"attention.k_norm.weight", {per_head ? s_.K : KV}, per_head ? kNothing : kRows}});
  }
  wo_ = list_.add({{"attention.wo.weight", {D, Q}, kColumns, out}});
  if (!norms_inputs() && weighted) of_attention_.norm = list_.add({{"post_attention_norm.weight", {D}}});
  if (norms_inputs() && weighted) of_ffn_.norm = list_.add({{"ffn_norm.weight", {D}}});
  w13_ = list_.add({{"feed_forward.w1.weight", {F, D}, kRows, in}, {"feed_forward.w3.weight", {F, D}, kRows, w3}});
  w2_ = list_.add({{"feed_forward.w2.weight", {D, F}, kColumns, out}});
  if (!norms_inputs() && weighted) of_ffn_.norm = list_.add({{"post_ffn_norm.weight", {D}}});
}

void LlamaBlock::add_kept_buffers(Program& p, int64_t layer) {
  const int64_t T = p.tokens(), rows = p.rows(), N = is_centred(s_.norm.type) ? 2 : 1, K = s_.K;
  const int64_t B = p.size.B, queries = p.size.S / s_.key_ranks, heads = s_.attention_heads();
  const auto add = [&](std::string_view name, std::vector<int64_t> shape) {
    return p.add_buffer(name, layer, std::move(shape));
  };
  of_attention_.statistics = p.add_buffer("attention_statistics", layer, {N, rows}, p.exact());
  of_attention_.normed = add(norms_inputs() ? "attention_input" : "attention_output", {rows, s_.D});
  qkv_ = add("qkv", {B * queries, (heads + 2 * s_.attention_key_heads()) * K});
  if (s_.qk_norm) {
    head_norm_input_ = add("head_norm_input", {T, s_.qk_heads() * K});
    const int64_t norms = norms_each_head() ? s_.qk_heads() : 2;  // of a token
    head_norm_statistics_ = p.add_buffer("head_norm_statistics", layer, {1, T * norms}, p.exact());
  }
  attention_ = add("attention", {T, s_.H * K});
  if (!p.uses_cache) log_sum_exp_ = p.add_buffer("log_sum_exp", layer, {B, heads, queries}, p.exact());
  middle_ = add("middle", {rows, s_.D});
  of_ffn_.statistics = p.add_buffer("feed_forward_statistics", layer, {N, rows}, p.exact());
  of_ffn_.normed = add(norms_inputs() ? "feed_forward_input" : "feed_forward_output", {rows, s_.D});
  gate_up_ = add("gate_up", {T, 2 * s_.F()});
  gated_ = add("gated", {T, s_.F()});
}

void LlamaBlock::add_working_buffers(Program& p, int64_t layer) {
  const int64_t T = p.tokens(), rows = p.rows(), B = p.size.B, S = p.size.S, K = s_.K;
  const int64_t heads = s_.attention_heads() * K, keys_values = 2 * s_.attention_key_heads() * K;
  const int64_t W = B * S / s_.key_ranks, D = s_.D;
  const bool trains = p.backward != Backward::kNone;
  branch_ = p.shared_buffer("branch", {rows, D});
  if (trains) {
    input_gradient_ = p.shared_buffer("input_gradient", {rows, D});
    qkv_gradient_ = p.in_halves() ? p.add_buffer("qkv_gradient", layer, {T, s_.qkv_width()})
                                  : p.shared_buffer("qkv_gradient", {T, s_.qkv_width()});
    attention_gradient_ = p.shared_buffer("attention_gradient", {T, s_.H * K});
    gated_gradient_ = p.shared_buffer("gated_gradient", {T, s_.F()});
    if (shares_norms_of_heads()) head_norm_dots_ = p.shared_buffer("head_norm_dots", {1, 2 * T}, p.exact());
  }
  p.add_row_buffers();
  if (shares_heads()) {
    attention_heads_ = p.add_buffer("attention_heads", layer, {W, heads});
    if (trains) {
      attention_heads_gradient_ = p.shared_buffer("attention_heads_gradient", {W, heads});
      qkv_heads_gradient_ = p.shared_buffer("qkv_heads_gradient", {W, heads + keys_values});
    }
    qkv_rows_ = p.shared_buffer("qkv_rows", {T, s_.qkv_width()});
    exchange_ = p.shared_buffer("exchange", {W / B, heads + keys_values});
  }
  if (shares_keys()) {
    keys_values_ = p.shared_buffer("keys_values", {B * S, keys_values});
    if (trains) keys_values_gradient_ = p.shared_buffer("keys_values_gradient", {B * S, keys_values});
    key_exchange_ = p.shared_buffer("key_exchange", {S, keys_values});
  }
  if (p.in_halves()) {
    of_attention_.gradient = p.add_buffer("attention_branch_gradient", layer, {rows, D});
    of_ffn_.gradient = p.add_buffer("feed_forward_branch_gradient", layer, {rows, D});
  }
}

// Forward.

ResidualStream LlamaBlock::forward(Program& p, const ResidualStream& before, const Ref& entry) {
  entry_ = entry;
  const bool adds = before.branch.exists();
  if (norms_inputs()) {
    p.step("norm");
    if (adds) {
      p.add(AddNormForward{s_.norm, entry, of_attention_.normed, of_attention_.statistics, before.x, before.branch,
                           of_attention_.norm});
    } else {
      p.add(NormForward{s_.norm, of_attention_.normed, of_attention_.statistics, entry, of_attention_.norm});
    }
  } else if (adds) {
    add_branch(p, entry, before.x, before.branch, false);
  }
  attend(p, false);
  add_branch_of_attention(p, false);
  gate_and_up(p, false);
  p.step("swiglu");
  p.add(SwiGlu{gated_, gate_up_});
  down(p, false);
  return {middle_, branch_};
}

// The input of attention -> qkv, attention, log_sum_exp.
void LlamaBlock::attend(Program& p, bool is_repeated) {
  p.step("wq wk wv", is_repeated);
  const Ref product = shares_heads() ? qkv_rows_ : qkv_;
  p.add(Linear{product, p.all_rows(attention_input()), wqkv_});
  if (s_.qkv_bias) p.add(AddBias{product, bqkv_});
  if (s_.qk_norm) norm_heads(p, product);
  if (p.uses_cache) {
    p.step("attention", is_repeated);
    return p.add(CachedAttention{attention_, qkv_});
  }
  if (shares_heads()) {
    p.step("exchange of heads", is_repeated);
    p.add(RowsToHeads{qkv_, qkv_rows_, exchange_, /*has_keys=*/true});
  }
  const int64_t q = s_.attention_heads() * s_.K, k = s_.attention_key_heads() * s_.K;  // of heads
  if (rotates()) p.add(Rotate{qkv_.part(0, q + k)});
  gather_keys(p);
  p.step("attention", is_repeated);
  const Ref out = shares_heads() ? attention_heads_ : attention_;
  const Ref keys_values = shares_keys() ? keys_values_ : qkv_.part(q, 2 * k);
  p.add(Attention{reach_, out, log_sum_exp_, qkv_.part(0, q), keys_values.part(0, k), keys_values.part(k, k)});
  if (!shares_heads()) return;
  p.step("exchange of heads", is_repeated);
  p.add(HeadsToRows{attention_, attention_heads_, exchange_, /*has_keys=*/false});
}

void LlamaBlock::norm_heads(Program& p, const Ref& product) {
  const int64_t queries = s_.H * s_.K, keys = s_.G * s_.K, T = p.tokens();
  const Ref q = product.part(0, queries), k = product.part(queries, keys);
  const Ref q_input = head_norm_input_.part(0, queries), k_input = head_norm_input_.part(queries, keys);
  p.add(Copy{head_norm_input_, product.part(0, queries + keys)});
  if (norms_each_head()) {
    const Ref of_q = head_norm_statistics_.part(0, T * s_.H), of_k = head_norm_statistics_.part(T * s_.H, T * s_.G);
    p.add(NormForward{s_.head_norm(), q, of_q, q_input, q_norm_, s_.K});
    p.add(NormForward{s_.head_norm(), k, of_k, k_input, k_norm_, s_.K});
    return;
  }
  const Ref of_q = head_norm_statistics_.part(0, T), of_k = head_norm_statistics_.part(T, T);
  if (!shares_norms_of_heads()) {
    p.add(NormForward{s_.head_norm(), q, of_q, q_input, q_norm_});
    p.add(NormForward{s_.head_norm(), k, of_k, k_input, k_norm_});
    return;
  }
  p.add(NormPartSquares{of_q, q_input});
  p.add(NormPartSquares{of_k, k_input});
  p.add(SumOverRanks{head_norm_statistics_});
  p.add(NormPartForward{s_.head_norm(), queries * s_.tensor.size, q, of_q, q_input, q_norm_});
  p.add(NormPartForward{s_.head_norm(), keys * s_.tensor.size, k, of_k, k_input, k_norm_});
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
  p.add(NormPartDots{q_dots, dq, q, of_q, q_norm_});
  p.add(NormPartDots{k_dots, dk, k, of_k, k_norm_});
  p.add(SumOverRanks{head_norm_dots_});
  p.add(NormPartGradient{queries * s_.tensor.size, dq, dq, q, of_q, q_dots, q_norm_});
  p.add(NormPartGradient{keys * s_.tensor.size, dk, dk, k, of_k, k_dots, k_norm_});
}

void LlamaBlock::gather_keys(Program& p) {
  if (!shares_keys()) return;
  p.step("gather of keys and values");
  p.add(GatherKeys{keys_values_, qkv_, key_exchange_});
}

// sum = x + branch.
void LlamaBlock::add_branch(Program& p, const Ref& sum, const Ref& x, const Ref& branch, bool is_repeated) {
  p.step("sum", is_repeated);
  p.add(Copy{sum, x});
  p.add(Add{sum, branch});
}

// A branch's last product. OLMo 2 norms it.
void LlamaBlock::leave(Program& p, const Branch& branch, const Ref& x, const Weight& w, bool is_repeated) {
  const Ref out = norms_inputs() ? branch_ : branch.normed;
  p.step(branch.product, is_repeated);
  p.add(Linear{p.summands(out), x, w});
  p.sum_rows(out);
  if (norms_inputs()) return;
  p.step("norm", is_repeated);
  p.add(NormForward{s_.norm, branch_, branch.statistics, out, branch.norm});
}

// The stream after attention, with the norm that follows.
void LlamaBlock::add_branch_of_attention(Program& p, bool is_repeated) {
  leave(p, of_attention_, attention_, wo_, is_repeated);
  if (!norms_inputs()) return add_branch(p, middle_, entry_, branch_, is_repeated);
  p.step("norm", is_repeated);
  p.add(AddNormForward{s_.norm, middle_, of_ffn_.normed, of_ffn_.statistics, entry_, branch_, of_ffn_.norm});
}

void LlamaBlock::gate_and_up(Program& p, bool is_repeated) {
  p.step("w1 w3", is_repeated);
  p.add(Linear{gate_up_, p.all_rows(ffn_input()), w13_});
}

void LlamaBlock::down(Program& p, bool is_repeated) { leave(p, of_ffn_, gated_, w2_, is_repeated); }

// Backward. The gradient of a sum is the gradient of both summands: of the branch and of the stream before it.

void LlamaBlock::backward(Program& p, const Ref& dstream, Recompute level) {
  const bool again = level == Recompute::kBlock;
  if (again) {
    if (norms_inputs()) norm_again(p, of_attention_, entry_);
    attend(p, true);
    add_branch_of_attention(p, true);
    gate_and_up(p, true);
  } else if (level != Recompute::kNone && norms_inputs()) {
    norm_again(p, of_ffn_, middle_);
  }
  // kNone keeps `gated`, although computing it again is nearly free: "none" should mean what it says. The norm of an
  // output needs the output, so w2's product is computed again, too.
  bool has_gated = level == Recompute::kNone;
  if (again && !norms_inputs()) {
    p.step("swiglu", /*is_repeated=*/true);
    p.add(SwiGlu{gated_, gate_up_});
    down(p, true);
    has_gated = true;
  }
  feed_forward_backward(p, output_gradient(p, of_ffn_, dstream), has_gated);
  input_gradient(p, of_ffn_, dstream, middle_);

  if (level != Recompute::kNone && norms_inputs()) norm_again(p, of_attention_, entry_);
  if (level == Recompute::kAttention) attend(p, true);
  attention_backward(p, output_gradient(p, of_attention_, dstream), level);
  input_gradient(p, of_attention_, dstream, entry_);
}

void LlamaBlock::norm_again(Program& p, const Branch& branch, const Ref& x) {
  p.step("norm", /*is_repeated=*/true);
  p.add(NormForward{s_.norm, branch.normed, branch.statistics, x, branch.norm});
}

// The gradient of a branch's last product: dstream, or what the norm behind the product makes of it. In halves,
// weight_gradients finds it in branch.gradient.
Ref LlamaBlock::output_gradient(Program& p, const Branch& branch, const Ref& dstream) {
  if (!norms_inputs()) {
    // Nothing else needs input_gradient until the branch's end.
    const Ref doutput = p.in_halves() ? branch.gradient : input_gradient_;
    p.step("the norm's gradient");
    p.add(NormGradient{s_.norm, doutput, dstream, branch.normed, branch.statistics, branch.norm});
    return doutput;
  }
  if (p.in_halves()) {
    p.step(branch.product_gradient);
    p.add(Copy{branch.gradient, dstream});
  }
  return dstream;
}

// Adds the gradient of a branch's input x to the stream's.
void LlamaBlock::input_gradient(Program& p, const Branch& branch, const Ref& dstream, const Ref& x) {
  if (!norms_inputs()) {
    p.step("sum's gradient");
    p.add(Add{dstream, input_gradient_});
    return;
  }
  p.step("the norm's gradient");
  p.add(NormGradient{s_.norm, dstream, input_gradient_, x, branch.statistics, branch.norm, /*adds=*/true});
}

// The gradient of w2's output -> input_gradient, the gradient of ffn_input.
void LlamaBlock::feed_forward_backward(Program& p, const Ref& doutput, bool has_gated) {
  p.step("w2's input gradient");
  const Ref dbranch = p.all_rows(doutput);
  p.add(LinearInputGradient{gated_gradient_, dbranch, w2_});
  // gate_up is not needed again. If forward did not keep `gated`, it is computed again, over its gradient unless it is
  // read later.
  const Ref gated = has_gated || p.in_halves() ? gated_ : gated_gradient_;
  p.step("swiglu's gradient");
  p.add(SwiGluGradient{gate_up_, gated_gradient_, has_gated ? Ref{} : gated});
  if (p.in_halves()) {
    p.step("w1's and w3's input gradient");
    p.add(LinearInputGradient{p.summands(input_gradient_), gate_up_, w13_});
    return p.sum_rows(input_gradient_);
  }
  p.step("w2's gradient");
  p.add(LinearWeightGradient{w2_, dbranch, gated});
  p.step("w1's and w3's gradients");
  p.linear_gradients(input_gradient_, gate_up_, ffn_input(), w13_);
}

// The gradient of wo's output -> input_gradient, the gradient of attention_input.
void LlamaBlock::attention_backward(Program& p, const Ref& doutput, Recompute level) {
  p.step(p.in_halves() ? "wo's input gradient" : "wo's gradients");
  const Ref dbranch = p.all_rows(doutput);
  if (!p.in_halves()) p.add(LinearWeightGradient{wo_, dbranch, attention_});
  p.add(LinearInputGradient{attention_gradient_, dbranch, wo_});
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
  p.add(AttentionGradient{reach_, dqkv.part(0, q), dkeys_values.part(0, k), dkeys_values.part(k, k),
                          shares_heads() ? attention_heads_gradient_ : attention_gradient_,
                          shares_heads() ? attention_heads_ : attention_, log_sum_exp_, qkv_.part(0, q),
                          keys_values.part(0, k), keys_values.part(k, k)});
  if (shares_keys()) {
    p.step("sum of the keys' and values' gradients");
    p.add(SumKeyGradients{dqkv, keys_values_gradient_, key_exchange_});
  }
  if (rotates()) p.add(Rotate{dqkv.part(0, q + k), /*is_gradient=*/true});
  if (shares_heads()) {
    p.step("exchange of heads");
    p.add(HeadsToRows{qkv_gradient_, qkv_heads_gradient_, exchange_, /*has_keys=*/true});
  }

  if (s_.qk_norm) norm_heads_backward(p);
  if (s_.qkv_bias) {
    p.step("the biases' gradients");
    p.add(BiasGradient{bqkv_, qkv_gradient_});
  }
  if (p.in_halves()) {
    p.step("wq's, wk's and wv's input gradient");
    p.add(LinearInputGradient{p.summands(input_gradient_), qkv_gradient_, wqkv_});
    return p.sum_rows(input_gradient_);
  }
  p.step("wq's, wk's and wv's gradients");
  p.linear_gradients(input_gradient_, qkv_gradient_, attention_input(), wqkv_);
}

void LlamaBlock::weight_gradients(Program& p) {
  p.step("w2's gradient");
  p.add(LinearWeightGradient{w2_, p.all_rows(of_ffn_.gradient), gated_});
  p.step("w1's and w3's gradients");
  p.add(LinearWeightGradient{w13_, gate_up_, p.all_rows(ffn_input())});
  p.step("wo's gradient");
  p.add(LinearWeightGradient{wo_, p.all_rows(of_attention_.gradient), attention_});
  p.step("wq's, wk's and wv's gradients");
  p.add(LinearWeightGradient{wqkv_, qkv_gradient_, p.all_rows(attention_input())});
}

}  // namespace hearth::models
