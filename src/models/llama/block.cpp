#include "models/llama/block.h"

#include <cmath>

namespace hearth::models {

LlamaBlock::LlamaBlock(const ModelShape& shape, int64_t depth) : s_(shape) {
  // torchtitan's Llama: std 0.02, and smaller with depth for the matrices that write to the residual stream (and for
  // w3, which torchtitan's code treats alike). Its truncation bounds are absolute: +-2.
  constexpr double kStd = 0.02, kBound = 2;
  const Initialization& init = s_.initialization;
  const int64_t layers = s_.layers.total > 0 ? s_.layers.total : s_.L;
  const double deep_std = kStd / std::sqrt(2.0 * static_cast<double>(init.by_depth ? depth + 1 : layers));
  const Law in = init.torchtitan ? Law{Init::kTruncatedNormal, kStd, kBound} : Law{Init::kNormal, init.std};
  const Law w3 = init.torchtitan ? Law{Init::kTruncatedNormal, deep_std, kBound} : in;
  const Law out = init.torchtitan ? w3 : Law{Init::kNormal, init.output_std};

  const int64_t D = s_.D, Q = s_.H * s_.K, KV = s_.G * s_.K, F = s_.F;
  using enum Cut;
  if (has_weight(s_.norm.type)) attention_norm_ = list_.add({{"attention_norm.weight", {D}}});
  wqkv_ = list_.add({{"attention.wq.weight", {Q, D}, kRows, in},
                     {"attention.wk.weight", {KV, D}, kRows, in},
                     {"attention.wv.weight", {KV, D}, kRows, in}});
  if (s_.qkv_bias) {
    bqkv_ = list_.add({{"attention.wq.bias", {Q}, kRows, {Init::kZeros}},
                       {"attention.wk.bias", {KV}, kRows, {Init::kZeros}},
                       {"attention.wv.bias", {KV}, kRows, {Init::kZeros}}});
  }
  if (s_.qk_norm) {
    q_norm_ = list_.add({{"attention.q_norm.weight", {s_.K}}});
    k_norm_ = list_.add({{"attention.k_norm.weight", {s_.K}}});
  }
  wo_ = list_.add({{"attention.wo.weight", {D, Q}, kColumns, out}});
  if (has_weight(s_.norm.type)) ffn_norm_ = list_.add({{"ffn_norm.weight", {D}}});
  w13_ = list_.add({{"feed_forward.w1.weight", {F, D}, kRows, in}, {"feed_forward.w3.weight", {F, D}, kRows, w3}});
  w2_ = list_.add({{"feed_forward.w2.weight", {D, F}, kColumns, out}});
}

void LlamaBlock::add_kept_buffers(Program& p, int64_t layer) {
  const int64_t T = p.tokens(), rows = p.rows(), N = is_centred(s_.norm.type) ? 2 : 1, K = s_.K;
  const int64_t B = p.size.B, queries = p.size.S / s_.key_ranks, heads = s_.attention_heads();
  const auto add = [&](std::string_view name, std::vector<int64_t> shape) {
    return p.add_buffer(name, layer, std::move(shape));
  };
  attention_statistics_ = p.add_buffer("attention_statistics", layer, {N, rows}, p.exact());
  attention_input_ = add("attention_input", {rows, s_.D});
  qkv_ = add("qkv", {B * queries, (heads + 2 * s_.attention_key_heads()) * K});
  if (s_.qk_norm) {
    head_norm_input_ = add("head_norm_input", {T, s_.qk_heads() * K});
    head_norm_statistics_ = p.add_buffer("head_norm_statistics", layer, {1, T * s_.qk_heads()}, p.exact());
  }
  attention_ = add("attention", {T, s_.H * K});
  if (!p.uses_cache) log_sum_exp_ = p.add_buffer("log_sum_exp", layer, {B, heads, queries}, p.exact());
  middle_ = add("middle", {rows, s_.D});
  ffn_statistics_ = p.add_buffer("feed_forward_statistics", layer, {N, rows}, p.exact());
  ffn_input_ = add("feed_forward_input", {rows, s_.D});
  gate_up_ = add("gate_up", {T, 2 * s_.F});
  gated_ = add("gated", {T, s_.F});
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
    gated_gradient_ = p.shared_buffer("gated_gradient", {T, s_.F});
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
    attention_branch_gradient_ = p.add_buffer("attention_branch_gradient", layer, {rows, D});
    ffn_branch_gradient_ = p.add_buffer("feed_forward_branch_gradient", layer, {rows, D});
  }
}

// Forward.

Stream LlamaBlock::forward(Program& p, const Stream& before, const Ref& entry) {
  entry_ = entry;
  p.step("norm");
  if (before.branch.exists()) {
    p.add(AddNormForward{s_.norm, entry, attention_input_, attention_statistics_, before.x, before.branch,
                         attention_norm_});
  } else {
    p.add(NormForward{s_.norm, attention_input_, attention_statistics_, entry, attention_norm_});
  }
  attend(p, false);
  add_branch_of_attention(p, false);
  feed_forward_norm(p, false);
  gate_and_up(p, false);
  p.step("swiglu");
  p.add(SwiGlu{gated_, gate_up_});
  p.step("w2");
  p.add(Linear{p.summands(branch_), gated_, w2_});
  p.sum_rows(branch_);
  return {middle_, branch_};
}

// attention_input -> qkv, attention, log_sum_exp.
void LlamaBlock::attend(Program& p, bool is_repeated) {
  const int64_t queries = s_.H * s_.K, keys = s_.G * s_.K, T = p.tokens();  // of rows
  p.step("wq wk wv", is_repeated);
  const Ref product = shares_heads() ? qkv_rows_ : qkv_;
  p.add(Linear{product, p.all_rows(attention_input_), wqkv_});
  if (s_.qkv_bias) p.add(AddBias{product, bqkv_});
  if (s_.qk_norm) {
    p.add(Copy{head_norm_input_, product.part(0, queries + keys)});
    p.add(NormForward{s_.head_norm(), product.part(0, queries), head_norm_statistics_.part(0, T * s_.H),
                      head_norm_input_.part(0, queries), q_norm_, s_.K});
    p.add(NormForward{s_.head_norm(), product.part(queries, keys), head_norm_statistics_.part(T * s_.H, T * s_.G),
                      head_norm_input_.part(queries, keys), k_norm_, s_.K});
  }
  if (p.uses_cache) {
    p.step("attention", is_repeated);
    return p.add(CachedAttention{attention_, qkv_});
  }
  if (shares_heads()) {
    p.step("exchange of heads", is_repeated);
    p.add(RowsToHeads{qkv_, qkv_rows_, exchange_, /*has_keys=*/true});
  }
  const int64_t q = s_.attention_heads() * s_.K, k = s_.attention_key_heads() * s_.K;  // of heads
  p.add(Rotate{qkv_.part(0, q + k)});
  gather_keys(p);
  p.step("attention", is_repeated);
  const Ref out = shares_heads() ? attention_heads_ : attention_;
  const Ref keys_values = shares_keys() ? keys_values_ : qkv_.part(q, 2 * k);
  p.add(Attention{out, log_sum_exp_, qkv_.part(0, q), keys_values.part(0, k), keys_values.part(k, k)});
  if (!shares_heads()) return;
  p.step("exchange of heads", is_repeated);
  p.add(HeadsToRows{attention_, attention_heads_, exchange_, /*has_keys=*/false});
}

void LlamaBlock::gather_keys(Program& p) {
  if (!shares_keys()) return;
  p.step("gather of keys and values");
  p.add(GatherKeys{keys_values_, qkv_, key_exchange_});
}

void LlamaBlock::add_branch_of_attention(Program& p, bool is_repeated) {
  p.step("wo", is_repeated);
  p.add(Linear{p.summands(branch_), attention_, wo_});
  p.sum_rows(branch_);
}

// The stream after attention, and its norm.
void LlamaBlock::feed_forward_norm(Program& p, bool is_repeated) {
  p.step("norm", is_repeated);
  p.add(AddNormForward{s_.norm, middle_, ffn_input_, ffn_statistics_, entry_, branch_, ffn_norm_});
}

void LlamaBlock::gate_and_up(Program& p, bool is_repeated) {
  p.step("w1 w3", is_repeated);
  p.add(Linear{gate_up_, p.all_rows(ffn_input_), w13_});
}

// Backward. The gradient of a sum is the gradient of both summands: of the branch and of the stream before it.

void LlamaBlock::backward(Program& p, const Ref& dstream, Recompute level) {
  if (level == Recompute::kNorms || level == Recompute::kAttention) {
    p.step("norm", /*is_repeated=*/true);
    p.add(NormForward{s_.norm, ffn_input_, ffn_statistics_, middle_, ffn_norm_});
  } else if (level == Recompute::kBlock) {
    attention_norm_again(p);
    attend(p, true);
    add_branch_of_attention(p, true);
    feed_forward_norm(p, true);
    gate_and_up(p, true);
  }
  feed_forward_backward(p, dstream, level);
  p.step("the norm's gradient");
  p.add(NormGradient{s_.norm, dstream, input_gradient_, middle_, ffn_statistics_, ffn_norm_, /*adds=*/true});

  if (level != Recompute::kNone) attention_norm_again(p);
  if (level == Recompute::kAttention) attend(p, true);
  attention_backward(p, dstream, level);
  p.step("the norm's gradient");
  p.add(NormGradient{s_.norm, dstream, input_gradient_, entry_, attention_statistics_, attention_norm_, /*adds=*/true});
}

void LlamaBlock::attention_norm_again(Program& p) {
  p.step("norm", /*is_repeated=*/true);
  p.add(NormForward{s_.norm, attention_input_, attention_statistics_, entry_, attention_norm_});
}

// dstream -> input_gradient, the gradient of ffn_input.
void LlamaBlock::feed_forward_backward(Program& p, const Ref& dstream, Recompute level) {
  if (p.in_halves()) {
    p.step("w2's output gradient");
    p.add(Copy{ffn_branch_gradient_, dstream});
  }
  p.step("w2's input gradient");
  const Ref dbranch = p.all_rows(dstream);
  p.add(LinearInputGradient{gated_gradient_, dbranch, w2_});
  // gate_up is not needed again. If forward did not keep `gated`, it is computed again, over its gradient unless it is
  // read later.
  const bool is_kept = level == Recompute::kNone;
  const Ref gated = is_kept || p.in_halves() ? gated_ : gated_gradient_;
  p.step("swiglu's gradient");
  p.add(SwiGluGradient{gate_up_, gated_gradient_, is_kept ? Ref{} : gated});
  if (p.in_halves()) {
    p.step("w1's and w3's input gradient");
    p.add(LinearInputGradient{p.summands(input_gradient_), gate_up_, w13_});
    return p.sum_rows(input_gradient_);
  }
  p.step("w2's gradient");
  p.add(LinearWeightGradient{w2_, dbranch, gated});
  p.step("w1's and w3's gradients");
  p.linear_gradients(input_gradient_, gate_up_, ffn_input_, w13_);
}

// dstream -> input_gradient, the gradient of attention_input.
void LlamaBlock::attention_backward(Program& p, const Ref& dstream, Recompute level) {
  if (p.in_halves()) {
    p.step("wo's output gradient");
    p.add(Copy{attention_branch_gradient_, dstream});
    p.step("wo's input gradient");
    p.add(LinearInputGradient{attention_gradient_, p.all_rows(dstream), wo_});
  } else {
    p.step("wo's gradients");
    const Ref dbranch = p.all_rows(dstream);
    p.add(LinearWeightGradient{wo_, dbranch, attention_});
    p.add(LinearInputGradient{attention_gradient_, dbranch, wo_});
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
  p.add(AttentionGradient{dqkv.part(0, q), dkeys_values.part(0, k), dkeys_values.part(k, k),
                          shares_heads() ? attention_heads_gradient_ : attention_gradient_,
                          shares_heads() ? attention_heads_ : attention_, log_sum_exp_, qkv_.part(0, q),
                          keys_values.part(0, k), keys_values.part(k, k)});
  if (shares_keys()) {
    p.step("sum of the keys' and values' gradients");
    p.add(SumKeyGradients{dqkv, keys_values_gradient_, key_exchange_});
  }
  p.add(Rotate{dqkv.part(0, q + k), /*is_gradient=*/true});
  if (shares_heads()) {
    p.step("exchange of heads");
    p.add(HeadsToRows{qkv_gradient_, qkv_heads_gradient_, exchange_, /*has_keys=*/true});
  }

  const int64_t queries = s_.H * s_.K, keys = s_.G * s_.K, T = p.tokens();  // of rows
  if (s_.qk_norm) {
    p.step("the head norms' gradients");
    const Ref dq = qkv_gradient_.part(0, queries), dk = qkv_gradient_.part(queries, keys);
    p.add(NormGradient{s_.head_norm(), dq, dq, head_norm_input_.part(0, queries),
                       head_norm_statistics_.part(0, T * s_.H), q_norm_, /*adds=*/false, s_.K});
    p.add(NormGradient{s_.head_norm(), dk, dk, head_norm_input_.part(queries, keys),
                       head_norm_statistics_.part(T * s_.H, T * s_.G), k_norm_, /*adds=*/false, s_.K});
  }
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
  p.linear_gradients(input_gradient_, qkv_gradient_, attention_input_, wqkv_);
}

void LlamaBlock::weight_gradients(Program& p) {
  p.step("w2's gradient");
  p.add(LinearWeightGradient{w2_, p.all_rows(ffn_branch_gradient_), gated_});
  p.step("w1's and w3's gradients");
  p.add(LinearWeightGradient{w13_, gate_up_, p.all_rows(ffn_input_)});
  p.step("wo's gradient");
  p.add(LinearWeightGradient{wo_, p.all_rows(attention_branch_gradient_), attention_});
  p.step("wq's, wk's and wv's gradients");
  p.add(LinearWeightGradient{wqkv_, qkv_gradient_, p.all_rows(attention_input_)});
}

}  // namespace hearth::models
