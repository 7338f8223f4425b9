// SPDX-License-Identifier: Apache-2.0
#include "models/llama/block.h"

#include <cmath>

namespace hearth::models {

LlamaBlock::LlamaBlock(const ModelShape& layer) : s_(layer) {
  // torchtitan's Llama: std 0.02, and smaller with depth for the matrices that write to the residual stream (and for
  // w3, which torchtitan's code treats alike). Its truncation bounds are absolute: +-2.
  constexpr double kStd = 0.02, kBound = 2;
  const Initialization& init = s_.initialization;
  const int64_t depth = init.by_depth ? s_.stage.first + 1 : s_.stage.total;
  const double deep_std = kStd / std::sqrt(2.0 * static_cast<double>(depth));
  const Law in = init.torchtitan ? Law{Init::kTruncatedNormal, kStd, kBound} : Law{Init::kNormal, init.std};
  const Law w3 = init.torchtitan ? Law{Init::kTruncatedNormal, deep_std, kBound} : in;
  const Law out = init.torchtitan ? w3 : Law{Init::kNormal, init.output_std};

  const int64_t D = s_.D, Q = s_.H * s_.K, KV = s_.G * s_.K;
  using enum Cut;
  if (of_attention_.norms_input) of_attention_.input_norm = add_norm("attention_norm.weight");
  if (s_.has_latents()) {
    latent_.emplace(layer, list_, in);
  } else {
    wqkv_ = list_.add({{"attention.wq.weight", {Q, D}, kRows, in},
                       {"attention.wk.weight", {KV, D}, kRows, in},
                       {"attention.wv.weight", {KV, D}, kRows, in}});
  }
  if (s_.qkv_bias) {
    bqkv_ = list_.add({{"attention.wq.bias", {Q}, kRows, {Init::kZeros}},
                       {"attention.wk.bias", {KV}, kRows, {Init::kZeros}},
                       {"attention.wv.bias", {KV}, kRows, {Init::kZeros}}});
  }
  if (gates_attention()) wg_ = list_.add({{"attention.wg.weight", {Q, D}, kRows, in}});
  if (s_.qk_norm) {
    const bool per_head = norms_each_head();
    const Cut cut = per_head ? kNothing : kRows;
    q_norm_ = list_.add({{"attention.q_norm.weight", {per_head ? s_.K : Q}, cut, norm_law()}});
    k_norm_ = list_.add({{"attention.k_norm.weight", {per_head ? s_.K : KV}, cut, norm_law()}});
  }
  if (s_.attention_sinks) sinks_ = list_.add({{"attention.sinks", {s_.H}, kRows, in}});
  wo_ = list_.add({{"attention.wo.weight", {D, s_.H * s_.value_width()}, kColumns, out}});
  if (s_.output_bias) of_attention_.bias = list_.add({{"attention.wo.bias", {D}, kNothing, {Init::kZeros}}});
  if (norms_outputs()) of_attention_.output_norm = add_norm("post_attention_norm.weight");
  if (norms_inputs()) of_ffn_.input_norm = add_norm("ffn_norm.weight");
  const bool has_experts = layer.layers.front().experts > 0;
  if (!has_experts) add_feed_forward(in, w3, out);
  if (norms_outputs()) of_ffn_.output_norm = add_norm("post_ffn_norm.weight");
  if (has_experts) experts_.emplace(layer, list_, Experts::Laws{in, w3, out});
}

void LlamaBlock::add_feed_forward(const Law& in, const Law& w3, const Law& out) {
  const int64_t D = s_.D, F = s_.F();
  using enum Cut;
  const ParameterSpec w1 = {"feed_forward.w1.weight", {F, D}, kRows, in};
  const ParameterSpec b1 = {"feed_forward.w1.bias", {F}, kRows, {Init::kZeros}};
  if (s_.gated_ffn) {
    w13_ = list_.add({w1, {"feed_forward.w3.weight", {F, D}, kRows, w3}});
    if (s_.ffn_bias) b13_ = list_.add({b1, {"feed_forward.w3.bias", {F}, kRows, {Init::kZeros}}});
  } else {
    w13_ = list_.add({w1});
    if (s_.ffn_bias) b13_ = list_.add({b1});
  }
  w2_ = list_.add({{"feed_forward.w2.weight", {D, F}, kColumns, out}});
  if (s_.ffn_bias) of_ffn_.bias = list_.add({{"feed_forward.w2.bias", {D}, kNothing, {Init::kZeros}}});
}

// A norm that begins by changing no scale.
Law LlamaBlock::norm_law() const { return {adds_one(s_.norm.type) ? Init::kZeros : Init::kOnes}; }

Weight LlamaBlock::add_norm(std::string_view name) {
  if (!has_weight(s_.norm.type)) return {};
  return list_.add({{std::string(name), {s_.D}, Cut::kNothing, norm_law()}});
}

void LlamaBlock::add_kept_buffers(Program& p, int64_t layer) {
  const int64_t T = p.tokens(), rows = p.rows(), K = s_.K;
  const int64_t B = p.size.B, queries = p.size.S / s_.key_ranks, heads = s_.attention_heads();
  const auto add = [&](std::string_view name, std::vector<int64_t> shape) {
    return p.add_buffer(name, layer, std::move(shape));
  };
  const auto add_norms = [&](Branch& branch, const BranchNames& names) {
    const std::vector<int64_t> statistics = {is_centred(s_.norm.type) ? 2 : 1, rows};
    if (branch.norms_input) {
      branch.input_statistics = p.add_buffer(names.input_statistics, layer, statistics, p.exact());
      branch.input = add(names.input, {rows, s_.D});
    }
    if (norms_outputs()) {
      branch.output_statistics = p.add_buffer(names.output_statistics, layer, statistics, p.exact());
      branch.output = add(names.output, {rows, s_.D});
    }
  };
  add_norms(of_attention_,
            {"attention_statistics", "attention_input", "attention_output_statistics", "attention_output"});
  if (latent_) latent_->add_kept_buffers(p, layer);
  qkv_ = add("qkv", {B * queries, (heads + 2 * s_.attention_key_heads()) * K});
  if (s_.qk_norm) {
    head_norm_input_ = add("head_norm_input", {T, s_.qk_heads() * K});
    const int64_t norms = norms_each_head() ? s_.qk_heads() : 2;  // of a token
    head_norm_statistics_ = p.add_buffer("head_norm_statistics", layer, {1, T * norms}, p.exact());
  }
  attention_ = add("attention", {T, s_.H * K});
  if (gates_attention()) attention_gate_ = add("attention_gate", {T, s_.H * K});
  if (!p.uses_cache) log_sum_exp_ = p.add_buffer("log_sum_exp", layer, {B, heads, queries}, p.exact());
  middle_ = add("middle", {rows, s_.D});
  add_norms(of_ffn_,
            {"feed_forward_statistics", "feed_forward_input", "feed_forward_output_statistics", "feed_forward_output"});
  if (experts_) return experts_->add_kept_buffers(p, layer);
  gate_up_ = add("gate_up", {T, s_.ffn_width()});
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
    if (!experts_) gated_gradient_ = p.shared_buffer("gated_gradient", {T, s_.F()});
    if (shares_norms_of_heads()) head_norm_dots_ = p.shared_buffer("head_norm_dots", {1, 2 * T}, p.exact());
  }
  if (latent_) latent_->add_working_buffers(p, layer);
  if (has_zeros()) {
    const std::vector<int64_t> shape = {T, s_.H * s_.value_width()};
    values_ = p.in_halves() ? p.add_buffer("values", layer, shape) : p.shared_buffer("values", shape);
    if (trains) values_gradient_ = p.shared_buffer("values_gradient", shape);
  }
  if (gates_attention()) {
    gated_attention_ = p.in_halves() ? p.add_buffer("gated_attention", layer, {T, s_.H * K})
                                     : p.shared_buffer("gated_attention", {T, s_.H * K});
    if (trains) gate_input_gradient_ = p.shared_buffer("gate_input_gradient", {rows, D});
  }
  p.add_row_buffers();
  if (experts_) experts_->add_working_buffers(p, layer);
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
  if (of_attention_.norms_input) {
    p.step("norm");
    if (adds) {
      p.add(AddNormForward{s_.norm, entry, of_attention_.input, of_attention_.input_statistics, before.x, before.branch,
                           of_attention_.input_norm});
    } else {
      p.add(NormForward{s_.norm, of_attention_.input, of_attention_.input_statistics, entry, of_attention_.input_norm});
    }
  } else if (adds) {
    add_branch(p, entry, before.x, before.branch, false);
  }
  attend(p, false);
  add_branch_of_attention(p, false);
  gate_and_up(p, false);
  leave_ffn(p, false);
  scale_branch(p, false);
  return {middle_, branch_};
}

// The input of attention -> qkv, attention, log_sum_exp.
void LlamaBlock::attend(Program& p, bool is_repeated) {
  p.step(latent_ ? "input of latents" : "wq wk wv", is_repeated);
  const Ref product = shares_heads() ? qkv_rows_ : qkv_;
  const Ref input = p.all_rows(attention_input());
  if (latent_)
    latent_->expand(p, product, input, is_repeated);
  else
    p.add(Linear{product, input, wqkv_});
  if (gates_attention()) p.add(Linear{attention_gate_, input, wg_});
  if (s_.qkv_bias) p.add(AddBias{product, bqkv_});
  if (s_.qk_norm) norm_heads(p, product);
  if (p.uses_cache) {
    p.step("attention", is_repeated);
    return p.add(CachedAttention{attention_, qkv_, sinks_});
  }
  if (shares_heads()) {
    p.step("exchange of heads", is_repeated);
    p.add(RowsToHeads{qkv_, qkv_rows_, exchange_, /*has_keys=*/true});
  }
  const int64_t q = s_.attention_heads() * s_.K, k = s_.attention_key_heads() * s_.K;  // of heads
  rotate(p, qkv_, /*is_gradient=*/false);
  gather_keys(p);
  p.step("attention", is_repeated);
  const Ref out = shares_heads() ? attention_heads_ : attention_;
  const Ref keys_values = shares_keys() ? keys_values_ : qkv_.part(q, 2 * k);
  p.add(Attention{reach(), score_scale(), out, log_sum_exp_, qkv_.part(0, q), keys_values.part(0, k),
                  keys_values.part(k, k)});
  if (sinks_.exists()) p.add(AttentionSinks{sinks_, out, log_sum_exp_});
  if (!shares_heads()) return;
  p.step("exchange of heads", is_repeated);
  p.add(HeadsToRows{attention_, attention_heads_, exchange_, /*has_keys=*/false});
}

// Queries and keys at once, unless queries are scaled by their positions.
void LlamaBlock::rotate(Program& p, const Ref& qkv, bool is_gradient) {
  const Layer& layer = s_.layers.front();
  if (!layer.rotates) return;
  const int64_t q = s_.attention_heads() * s_.K, k = s_.attention_key_heads() * s_.K;
  const bool scales_queries = s_.rope_of(layer).scales_queries();
  if (scales_queries) p.add(Rotate{qkv.part(0, q), is_gradient, /*are_queries=*/true, layer.local_rope});
  const Ref others = scales_queries ? qkv.part(q, k) : qkv.part(0, q + k);
  p.add(Rotate{others, is_gradient, /*are_queries=*/false, layer.local_rope});
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

// A branch's last product with its bias and norm, to branch_.
void LlamaBlock::leave(Program& p, const Branch& branch, const Ref& x, const Weight& w, bool is_repeated) {
  const Ref out = norms_outputs() ? branch.output : branch_;
  p.step(branch.product, is_repeated);
  p.add(Linear{p.summands(out), x, w});
  p.sum_rows(out);
  finish(p, branch, out, is_repeated);
}

// What follows the last product of a branch: its bias and its norm.
void LlamaBlock::finish(Program& p, const Branch& branch, const Ref& out, bool is_repeated) {
  // Tensor-parallel ranks add the bias to the sum of their products, each to its own rows.
  if (branch.bias.exists()) p.add(AddBias{out, branch.bias});
  if (!norms_outputs()) return;
  p.step("norm", is_repeated);
  p.add(NormForward{s_.norm, branch_, branch.output_statistics, out, branch.output_norm});
}

void LlamaBlock::scale_branch(Program& p, bool is_repeated) {
  if (!scales_branches()) return;
  p.step("residual multiplier", is_repeated);
  p.add(Scale{branch_, branch_, s_.residual_multiplier});
}

// The stream after attention, with the norm that follows.
void LlamaBlock::add_branch_of_attention(Program& p, bool is_repeated) {
  if (gates_attention()) {
    p.step("attention's gate", is_repeated);
    p.add(Gate{gated_attention_, attention_, attention_gate_});
  }
  if (has_zeros()) {
    p.step("values without zeros", is_repeated);
    p.add(DropZeros{values_, attention_});
  }
  leave(p, of_attention_, wo_input(), wo_, is_repeated);
  scale_branch(p, is_repeated);
  if (!norms_inputs()) return add_branch(p, middle_, entry_, branch_, is_repeated);
  p.step("norm", is_repeated);
  p.add(AddNormForward{s_.norm, middle_, of_ffn_.input, of_ffn_.input_statistics, entry_, branch_, of_ffn_.input_norm});
}

void LlamaBlock::gate_and_up(Program& p, bool is_repeated) {
  if (experts_) return experts_->expand(p, ffn_input(), is_repeated);
  p.step(s_.gated_ffn ? "w1 w3" : "w1", is_repeated);
  p.add(Linear{gate_up_, p.all_rows(ffn_input()), w13_});
  if (b13_.exists()) p.add(AddBias{gate_up_, b13_});
}

void LlamaBlock::leave_ffn(Program& p, bool is_repeated) {
  if (experts_) {
    const Ref out = norms_outputs() ? of_ffn_.output : branch_;
    experts_->contract(p, out, is_repeated);
    return finish(p, of_ffn_, out, is_repeated);
  }
  activate(p, is_repeated);
  leave(p, of_ffn_, gated_, w2_, is_repeated);
}

void LlamaBlock::activate(Program& p, bool is_repeated) {
  p.step(is_swiglu() ? "swiglu" : "activation", is_repeated);
  p.add(Activate{s_.activation, gated_, gate_up_});
}

}  // namespace hearth::models
