// SPDX-License-Identifier: Apache-2.0
#include "models/moe/experts.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace hearth::models {
namespace {

Router router_of(const ModelShape& s) {
  return {.experts = s.layers.front().experts,
          .top_k = s.moe_top_k,
          .score_func = s.score_func,
          .groups = s.num_expert_groups,
          .limited_groups = s.num_limited_groups,
          .normalizes = s.route_norm,
          .scale = s.route_scale,
          .balance = s.moe_aux_loss_coeff,
          .z_loss = s.moe_z_loss_coeff};
}

}  // namespace

Experts::Experts(const ModelShape& layer, ParameterList& list, const Laws& laws)
    : s_(layer), E_(layer.layers.front().experts), router_(router_of(layer)) {
  const int64_t D = s_.D, F = s_.F();
  gate_ = list.add({{"moe.router.gate.weight", {E_, D}, Cut::kNothing, laws.w3}});
  if (s_.router_bias) logit_bias_ = list.add({{"moe.router.gate.bias", {E_}, Cut::kNothing, {Init::kZeros}}});
  if (s_.expert_bias)
    bias_ = list.add({{.name = "moe.expert_bias", .shape = {E_}, .law = {Init::kZeros}, .is_balanced = true}});
  if (s_.layers.front().shared_F > 0) add_shared(list, laws);
  const auto spec = [&](int64_t expert, const char* name, std::vector<int64_t> shape, Cut cut, const Law& law) {
    return ParameterSpec{.name = fmt::format("moe.experts.{}.{}", expert, name),
                         .shape = std::move(shape),
                         .cut = cut,
                         .law = law,
                         .expert = expert,
                         .used = static_cast<double>(router_.top_k) / static_cast<double>(E_)};
  };
  std::vector<ParameterSpec> first, second, first_biases, second_biases;
  for (int64_t expert = 0; expert < E_; ++expert) {
    first.push_back(spec(expert, "w1.weight", {F, D}, Cut::kRows, laws.in));
    first.push_back(spec(expert, "w3.weight", {F, D}, Cut::kRows, laws.w3));
    second.push_back(spec(expert, "w2.weight", {D, F}, Cut::kColumns, laws.out));
    first_biases.push_back(spec(expert, "w1.bias", {F}, Cut::kRows, {Init::kZeros}));
    first_biases.push_back(spec(expert, "w3.bias", {F}, Cut::kRows, {Init::kZeros}));
    second_biases.push_back(spec(expert, "w2.bias", {D}, Cut::kNothing, {Init::kZeros}));
  }
  w13_ = list.add(first);
  w2_ = list.add(second);
  if (!s_.ffn_bias) return;
  b13_ = list.add(first_biases);
  b2_ = list.add(second_biases);
}

void Experts::add_shared(ParameterList& list, const Laws& laws) {
  const int64_t D = s_.D, F = s_.layers.front().shared_F;
  shared_w13_ = list.add({{"moe.shared_experts.w1.weight", {F, D}, Cut::kRows, laws.in},
                          {"moe.shared_experts.w3.weight", {F, D}, Cut::kRows, laws.w3}});
  shared_w2_ = list.add({{"moe.shared_experts.w2.weight", {D, F}, Cut::kColumns, laws.out}});
}

SequenceRows Experts::sequence_rows(const Program& p) const {
  return {.first = shares() ? s_.tensor.rank * p.rows() : 0, .each = p.tokens() / p.size.B};
}

namespace {

// The rows for which buffers have room, where ranks have different experts. If all experts get equally many tokens, as
// many rows arrive as a rank sends. A new router is rarely worse than 1.5 times that; the worst is that every rank
// sends all its rows to one.
int64_t usual_arrivals(const ModelShape& s, int64_t sent) {
  const int64_t k = s.moe_top_k, here = s.layers.front().experts / s.expert_part.size;
  const int64_t worst = sent / k * std::min(k, here) * s.expert_part.size;
  return std::min(worst, sent + (sent + 1) / 2);
}

}  // namespace

void Experts::add_kept_buffers(Program& p, int64_t layer) {
  const int64_t T = routed(p), k = router_.top_k, N = T * k;
  const auto add = [&](std::string_view name, std::vector<int64_t> shape, DType dtype) {
    return p.add_buffer(name, layer, std::move(shape), dtype);
  };
  routing_ = {.scores = add("router_scores", {T, E_}, p.exact()),
              .log_sums = add("router_log_sums", {1, T}, p.exact()),
              .experts = add("router_experts", {T, k}, DType::kInt32),
              .slots = add("router_slots", {T, k}, DType::kInt32),
              .choices = add("router_choices", {1, N}, DType::kInt32),
              .factors = add("router_factors", {N, 1}, p.exact()),
              .ends = add("router_ends", {1, E_}, DType::kInt32),
              .loads = add("router_loads", {p.size.B, E_}, p.exact())};
  factors_ = routing_.factors;
  ends_ = routing_.ends;
  if (has_shared()) shared_gate_up_ = add("shared_gate_up", {p.tokens(), 2 * s_.layers.front().shared_F}, p.size.dtype);
  if (!shares()) {
    gate_up_ = add("gate_up", {N, 2 * s_.F()}, p.size.dtype);
    return;
  }
  const int64_t M = usual_arrivals(s_, N);
  arrivals_ = {.order = p.varying_buffer("arrival_order", layer, {M, 1}, DType::kInt64),
               .factors = p.varying_buffer("arrival_factors", layer, {M, 1}, p.exact()),
               .ends = add("arrival_ends", {1, E_ / s_.expert_part.size}, DType::kInt32)};
  factors_ = arrivals_.factors;
  ends_ = arrivals_.ends;
  input_ = p.varying_buffer("expert_input", layer, {M, s_.D}, p.size.dtype);
  gate_up_ = p.varying_buffer("gate_up", layer, {M, 2 * s_.F()}, p.size.dtype);
}

void Experts::add_working_buffers(Program& p, int64_t layer) {
  const int64_t T = routed(p), N = T * router_.top_k, D = s_.D, F = s_.F();
  const int64_t M = shares() ? usual_arrivals(s_, N) : N;
  const DType dtype = p.size.dtype;
  const auto add = [&](std::string_view name, int64_t of_layer, std::vector<int64_t> shape, DType type) {
    if (shares()) return p.varying_buffer(name, of_layer, std::move(shape), type);
    return of_layer < 0 ? p.shared_buffer(name, std::move(shape), type)
                        : p.add_buffer(name, of_layer, std::move(shape), type);
  };
  const int64_t in_halves = p.in_halves() ? layer : -1;
  rows_ = add("expert_rows", -1, {M, D}, dtype);
  row_outputs_ = add("expert_outputs", -1, {M, D}, dtype);
  gated_ = add("gated", in_halves, {M, F}, dtype);
  if (has_shared()) {
    const std::vector<int64_t> shape = {p.tokens(), s_.layers.front().shared_F};
    shared_gated_ = p.in_halves() ? p.add_buffer("shared_gated", layer, shape) : p.shared_buffer("shared_gated", shape);
    if (p.backward != Backward::kNone) shared_gated_gradient_ = p.shared_buffer("shared_gated_gradient", shape);
  }
  if (shares()) {
    sent_ = p.shared_buffer("sent_rows", {N, D});
    arrived_ = add("arrived_rows", -1, {M, D}, dtype);
    arrived_factors_ = add("arrived_factors", -1, {M, 1}, p.exact());
  }
  if (p.backward == Backward::kNone) return;
  dout_ = shares() && p.in_halves() ? add("expert_output_gradient", layer, {M, D}, dtype) : rows_;
  gated_gradient_ = add("gated_gradient", -1, {M, F}, dtype);
  activated_ = add("activated", -1, {M, F}, dtype);
  factors_gradient_ = add("factors_gradient", -1, {M, 1}, p.exact());
  if (shares()) sent_factors_gradient_ = p.shared_buffer("sent_factors_gradient", {N, 1}, p.exact());
  logits_gradient_ = p.in_halves() ? p.add_buffer("router_logits_gradient", layer, {T, E_}, p.exact())
                                   : p.shared_buffer("router_logits_gradient", {T, E_}, p.exact());
}

void Experts::sum_rows(Program& p, const Ref& out) const {
  if (!shares()) p.sum_rows(out);
}

void Experts::send(Program& p, const Ref& rows, const Ref& x) {
  if (!shares()) return p.add(Dispatch{rows, x, routing_});
  p.add(Dispatch{sent_, x, routing_});
  p.add(SendRows{rows, sent_, arrived_, arrivals_});
}

// Shared experts have written to `out` before.
void Experts::bring_back(Program& p, const Ref& out, const Ref& rows) {
  if (!shares()) return p.add(Combine{p.summands(out), rows, routing_, has_shared()});
  p.add(ReturnRows{sent_, rows, arrived_, arrivals_});
  p.add(Combine{out, sent_, routing_, has_shared()});
}

// out = shared experts' rows. Summands, unless ranks have different experts: these add whole rows to it.
void Experts::share_rows(Program& p, const Ref& out) {
  if (!has_shared()) return;
  p.add(Activate{s_.activation, shared_gated_, shared_gate_up_});
  p.add(Linear{p.summands(out), shared_gated_, shared_w2_});
  if (shares()) p.sum_rows(out);
}

// Returns dout of all rows. The gradient of the experts' input may take the place of dout later.
Ref Experts::shared_gradients(Program& p, const Ref& dout) {
  if (!has_shared()) return dout;
  p.step("gradients of shared experts");
  const Ref dall = p.all_rows(dout);
  p.add(LinearInputGradient{shared_gated_gradient_, dall, shared_w2_});
  const Ref gated = p.in_halves() ? shared_gated_ : shared_gated_gradient_;
  p.add(ActivateGradient{s_.activation, shared_gate_up_, shared_gated_gradient_, gated});
  if (!p.in_halves()) p.add(LinearWeightGradient{shared_w2_, dall, gated});
  return dall;
}

void Experts::share_input_gradient(Program& p, const Ref& dx) {
  if (!has_shared()) return;
  p.add(LinearInputGradient{p.summands(dx), shared_gate_up_, shared_w13_});
  if (shares()) p.sum_rows(dx);
}

void Experts::expand(Program& p, const Ref& x, bool is_repeated) {
  p.step(is_repeated ? "rows of experts" : "router", is_repeated);
  const Ref all = has_shared() ? p.all_rows(x) : x;
  const Ref own = !has_shared() ? routed_rows(p, x) : shares() ? x : all;
  if (!is_repeated) {
    p.add(Route{router_, gate_, logit_bias_, bias_, own, routing_, sequence_rows(p)});
    const bool cut = shares() && s_.tensor.size > 1;  // the rows of a sequence, over ranks that share the layers
    if ((s_.context > 1 || cut) && router_.balances() && p.backward != Backward::kNone)
      p.add(SumLoads{routing_.loads, cut});
    if (shares()) p.add(SendCounts{routing_});
  }
  if (has_shared()) p.add(Linear{shared_gate_up_, all, shared_w13_});
  if (shares() && !is_repeated) {
    p.add(ShareCounts{arrivals_});
    p.add(SendRows{arrivals_.factors, routing_.factors, arrived_factors_, arrivals_});
  }
  const Ref rows = shares() ? input_ : rows_;
  send(p, rows, own);
  p.step("w1 w3 of experts", is_repeated);
  p.add(ExpertsLinear{gate_up_, rows, w13_, ends_});
  if (b13_.exists()) p.add(AddExpertsBias{gate_up_, b13_, ends_});
}

// Rows are weighed before the product with w2: p (w2 h + b) = w2 (p h) + p b.
void Experts::contract(Program& p, const Ref& out, bool is_repeated) {
  p.step("activation of experts", is_repeated);
  p.add(Activate{s_.activation, gated_, gate_up_});
  p.add(ScaleSlots{gated_, factors_});
  p.step("w2 of experts", is_repeated);
  p.add(ExpertsLinear{row_outputs_, gated_, w2_, ends_});
  if (adds_output_bias()) p.add(AddExpertsBias{row_outputs_, b2_, ends_, factors_});
  p.step("sum of experts", is_repeated);
  share_rows(p, out);
  bring_back(p, out, row_outputs_);
  sum_rows(p, out);
}

void Experts::backward(Program& p, const Ref& dx, const Ref& dout, const Ref& x) {
  const Ref dall = shared_gradients(p, dout);
  p.step("w2's input gradient");
  send(p, dout_, has_shared() && !shares() ? dall : routed_rows(p, dout));
  p.add(ExpertsInputGradient{gated_gradient_, dout_, w2_, ends_});
  p.step("the factors' gradient");
  p.add(Activate{s_.activation, activated_, gate_up_});
  p.add(FactorsGradient{factors_gradient_, gated_gradient_, activated_});
  if (adds_output_bias()) p.add(BiasFactorsGradient{factors_gradient_, dout_, b2_, ends_});
  if (shares()) p.add(ReturnRows{sent_factors_gradient_, factors_gradient_, arrived_factors_, arrivals_});
  p.add(ScaleSlots{gated_gradient_, factors_});
  // The input of w2 is nearly free to compute again, and large.
  p.add(ScaleSlots{activated_, factors_});
  if (p.in_halves()) {
    p.add(Copy{gated_, activated_});
  } else {
    p.step("w2's gradients");
    output_weight_gradients(p, activated_);
  }
  p.step("activation's gradient");
  p.add(ActivateGradient{s_.activation, gate_up_, gated_gradient_, Ref{}});
  p.step("w1's and w3's input gradient");
  p.add(ExpertsInputGradient{row_outputs_, gate_up_, w13_, ends_});
  p.step("the router's gradient");
  share_input_gradient(p, dx);
  bring_back(p, dx, row_outputs_);
  // The losses of the router itself count once: one of the ranks that route the same rows adds them.
  Router router = router_;
  if (!shares() && s_.tensor.rank > 0) router.balance = router.z_loss = 0;
  const Ref dfactors = shares() ? sent_factors_gradient_ : factors_gradient_;
  p.add(RouteGradient{router, s_.stage.first, logits_gradient_, dfactors, routing_, sequence_rows(p)});
  p.add(RouterInputGradient{summands(p, dx), logits_gradient_, gate_});
  sum_rows(p, dx);
  if (!p.in_halves()) gradients_in(p, x);
}

void Experts::weight_gradients(Program& p, const Ref& dout, const Ref& x) {
  p.step("w2's gradients");
  const Ref dall = has_shared() ? p.all_rows(dout) : dout;
  if (has_shared()) p.add(LinearWeightGradient{shared_w2_, dall, shared_gated_});
  if (!shares()) send(p, dout_, has_shared() ? dall : routed_rows(p, dout));
  output_weight_gradients(p, gated_);
  gradients_in(p, x);
}

void Experts::output_weight_gradients(Program& p, const Ref& gated) {
  p.add(ExpertsWeightGradient{w2_, dout_, gated, ends_});
  if (adds_output_bias()) p.add(ExpertsBiasGradient{b2_, dout_, ends_, factors_});
}

void Experts::gradients_in(Program& p, const Ref& x) {
  p.step("w1's, w3's and the router's gradients");
  const Ref all = has_shared() ? p.all_rows(x) : x;
  const Ref own = !has_shared() ? routed_rows(p, x) : shares() ? x : all;
  if (has_shared()) p.add(LinearWeightGradient{shared_w13_, shared_gate_up_, all});
  p.add(RouterWeightGradient{gate_, logits_gradient_, own});
  if (logit_bias_.exists()) p.add(BiasGradient{logit_bias_, logits_gradient_});
  if (!shares()) send(p, rows_, own);
  p.add(ExpertsWeightGradient{w13_, gate_up_, shares() ? input_ : rows_, ends_});
  if (b13_.exists()) p.add(ExpertsBiasGradient{b13_, gate_up_, ends_});
}

}  // namespace hearth::models
