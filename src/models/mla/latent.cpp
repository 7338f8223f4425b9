// SPDX-License-Identifier: Apache-2.0
#include "models/mla/latent.h"

namespace hearth::models {
namespace {

constexpr Norm kLatentNorm = {NormType::kRmsNorm, 1e-6};

}  // namespace

Latent::Latent(const ModelShape& layer, ParameterList& list, const Law& in) : s_(layer) {
  const int64_t D = s_.D, C = s_.kv_lora_rank, Q = s_.q_lora_rank;
  using enum Cut;
  const ParameterSpec wkv_a = {"attention.wkv_a.weight", {C + s_.qk_rope_head_dim, D}, kNothing, in};
  if (has_query_latent()) {
    in_ = list.add({{"attention.wq_a.weight", {Q, D}, kNothing, in}, wkv_a});
    q_norm_ = list.add({{"attention.q_a_norm.weight", {Q}, kNothing, {Init::kOnes}}});
    wq_ = list.add({{"attention.wq_b.weight", {s_.H * s_.K, Q}, kRows, in}});
  } else {
    wq_ = list.add({{"attention.wq.weight", {s_.H * s_.K, D}, kRows, in}});
    in_ = list.add({wkv_a});
  }
  kv_norm_ = list.add({{"attention.kv_norm.weight", {C}, kNothing, {Init::kOnes}}});
  wkv_b_ = list.add({{"attention.wkv_b.weight", {s_.H * (s_.qk_nope_head_dim + s_.v_head_dim), C}, kRows, in}});
}

void Latent::add_kept_buffers(Program& p, int64_t layer) {
  const int64_t T = p.tokens(), normed = s_.q_lora_rank + s_.kv_lora_rank;
  latents_ = p.add_buffer("latents", layer, {T, normed + s_.qk_rope_head_dim});
  statistics_ = p.add_buffer("latent_statistics", layer, {1, (has_query_latent() ? 2 : 1) * T}, p.exact());
  normed_ = p.add_buffer("normed_latents", layer, {T, normed});
}

void Latent::add_working_buffers(Program& p, int64_t layer) {
  const int64_t T = p.tokens(), normed = s_.q_lora_rank + s_.kv_lora_rank;
  const int64_t heads = s_.H * (s_.qk_nope_head_dim + s_.v_head_dim);
  heads_ = p.shared_buffer("latent_heads", {T, heads});
  if (p.backward == Backward::kNone) return;
  const auto add = [&](std::string_view name, std::vector<int64_t> shape) {
    return p.in_halves() ? p.add_buffer(name, layer, std::move(shape)) : p.shared_buffer(name, std::move(shape));
  };
  heads_gradient_ = add("latent_heads_gradient", {T, heads});
  latents_gradient_ = add("latents_gradient", {T, normed + s_.qk_rope_head_dim});
  normed_gradient_ = p.shared_buffer("normed_latents_gradient", {T, normed});
  if (!has_query_latent()) query_input_gradient_ = p.shared_buffer("query_input_gradient", {p.rows(), s_.D});
}

void Latent::norm(Program& p) {
  const int64_t T = p.tokens();
  if (has_query_latent())
    p.add(NormForward{kLatentNorm, query_part(normed_), statistics_.part(T, T), query_part(latents_), q_norm_});
  p.add(NormForward{kLatentNorm, key_part(normed_), statistics_.part(0, T), key_part(latents_), kv_norm_});
}

void Latent::norm_again(Program& p) {
  p.step("norms of latents", /*is_repeated=*/true);
  norm(p);
}

void Latent::expand(Program& p, const Ref& qkv, const Ref& y, bool is_repeated) {
  p.step(has_query_latent() ? "wq_a wkv_a" : "wkv_a", is_repeated);
  p.add(Linear{latents_, y, in_});
  p.step("norms of latents", is_repeated);
  norm(p);
  // One step writes all parts of a buffer: else those of the first step might not be alive in between.
  p.step(has_query_latent() ? "wq_b wkv_b" : "wq wkv_b", is_repeated);
  p.add(Linear{queries_of(qkv), has_query_latent() ? query_part(normed_) : y, wq_});
  p.add(Linear{heads_, key_part(normed_), wkv_b_});
  p.add(ExpandLatents{keys_values_of(qkv), heads_, shared_part(latents_)});
}

void Latent::backward(Program& p, const Ref& dy, const Ref& dqkv, const Ref& y) {
  const int64_t T = p.tokens();
  const Ref dq = queries_of(dqkv);
  p.step(p.in_halves() ? "input gradients of the latents' norms" : "gradients of the latents' norms");
  p.add(ExpandLatentsGradient{heads_gradient_, shared_part(latents_gradient_), keys_values_of(dqkv)});
  p.add(LinearInputGradient{key_part(normed_gradient_), heads_gradient_, wkv_b_});
  if (!p.in_halves()) p.add(LinearWeightGradient{wkv_b_, heads_gradient_, key_part(normed_)});
  p.add(NormGradient{kLatentNorm, key_part(latents_gradient_), key_part(normed_gradient_), key_part(latents_),
                     statistics_.part(0, T), kv_norm_});
  if (has_query_latent()) {
    p.add(LinearInputGradient{query_part(normed_gradient_), dq, wq_});
    if (!p.in_halves()) p.add(LinearWeightGradient{wq_, dq, query_part(normed_)});
    p.add(NormGradient{kLatentNorm, query_part(latents_gradient_), query_part(normed_gradient_), query_part(latents_),
                       statistics_.part(T, T), q_norm_});
  }
  const auto product = [&](const Ref& dx, const Ref& dout, const Weight& weight) {
    if (!p.in_halves()) return p.linear_gradients(dx, dout, y, weight);
    p.add(LinearInputGradient{p.summands(dx), dout, weight});
    p.sum_rows(dx);
  };
  p.step(p.in_halves() ? "input gradient of the latents" : "gradients of the latents' products");
  product(dy, latents_gradient_, in_);
  if (has_query_latent()) return;
  p.step(p.in_halves() ? "wq's input gradient" : "wq's gradients");
  product(query_input_gradient_, dq, wq_);
  p.add(Add{dy, query_input_gradient_});
}

void Latent::weight_gradients(Program& p, const Ref& dqkv, const Ref& y) {
  p.add(LinearWeightGradient{wkv_b_, heads_gradient_, key_part(normed_)});
  p.add(LinearWeightGradient{wq_, queries_of(dqkv), has_query_latent() ? query_part(normed_) : y});
  p.add(LinearWeightGradient{in_, latents_gradient_, y});
}

}  // namespace hearth::models
