// SPDX-License-Identifier: Apache-2.0
#include "models/moe/experts.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

namespace hearth::models {
namespace {

Router router_of(const ModelShape& s) {
  return {.experts = s.layers.front().experts,
          .top_k = s.moe_top_k,
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
  std::vector<ParameterSpec> first, second;
  for (int64_t expert = 0; expert < E_; ++expert) {
    const auto name = [expert](const char* matrix) { return fmt::format("moe.experts.{}.{}.weight", expert, matrix); };
    first.push_back({name("w1"), {F, D}, Cut::kRows, laws.in});
    first.push_back({name("w3"), {F, D}, Cut::kRows, laws.w3});
    second.push_back({name("w2"), {D, F}, Cut::kColumns, laws.out});
  }
  for (std::vector<ParameterSpec>* specs : {&first, &second}) {
    for (ParameterSpec& spec : *specs) spec.used = static_cast<double>(router_.top_k) / static_cast<double>(E_);
  }
  w13_ = list.add(first);
  w2_ = list.add(second);
}

void Experts::add_kept_buffers(Program& p, int64_t layer) {
  const int64_t T = p.tokens(), k = router_.top_k;
  const auto add = [&](std::string_view name, std::vector<int64_t> shape, DType dtype) {
    return p.add_buffer(name, layer, std::move(shape), dtype);
  };
  routing_ = {.scores = add("router_scores", {T, E_}, p.exact()),
              .log_sums = add("router_log_sums", {1, T}, p.exact()),
              .experts = add("router_experts", {T, k}, DType::kInt32),
              .factors = add("router_factors", {T, k}, p.exact()),
              .slots = add("router_slots", {T, k}, DType::kInt32),
              .choices = add("router_choices", {1, T * k}, DType::kInt32),
              .ends = add("router_ends", {1, E_}, DType::kInt32),
              .loads = add("router_loads", {p.size.B, E_}, p.exact())};
  gate_up_ = add("gate_up", {T * k, 2 * s_.F()}, p.size.dtype);
}

void Experts::add_working_buffers(Program& p, int64_t layer) {
  const int64_t T = p.tokens(), N = T * router_.top_k, F = s_.F();
  rows_ = p.shared_buffer("expert_rows", {N, s_.D});
  row_outputs_ = p.shared_buffer("expert_outputs", {N, s_.D});
  gated_ = p.in_halves() ? p.add_buffer("gated", layer, {N, F}) : p.shared_buffer("gated", {N, F});
  if (p.backward == Backward::kNone) return;
  gated_gradient_ = p.shared_buffer("gated_gradient", {N, F});
  activated_ = p.shared_buffer("activated", {N, F});
  factors_gradient_ = p.shared_buffer("router_factors_gradient", {T, router_.top_k}, p.exact());
  logits_gradient_ = p.in_halves() ? p.add_buffer("router_logits_gradient", layer, {T, E_}, p.exact())
                                   : p.shared_buffer("router_logits_gradient", {T, E_}, p.exact());
}

void Experts::expand(Program& p, const Ref& x, bool is_repeated) {
  p.step(is_repeated ? "rows of experts" : "router", is_repeated);
  const Ref all = p.all_rows(x);
  if (!is_repeated) {
    p.add(Route{router_, gate_, all, routing_});
    if (s_.context > 1 && router_.balances() && p.backward != Backward::kNone) p.add(SumLoads{routing_.loads});
  }
  p.add(Dispatch{rows_, all, routing_});
  p.step("w1 w3 of experts", is_repeated);
  p.add(ExpertsLinear{gate_up_, rows_, w13_, routing_.ends});
}

// Rows are weighed before the product with w2: p (w2 h) = w2 (p h).
void Experts::contract(Program& p, const Ref& out, bool is_repeated) {
  p.step("activation of experts", is_repeated);
  p.add(Activate{s_.activation, gated_, gate_up_});
  p.add(ScaleSlots{gated_, routing_});
  p.step("w2 of experts", is_repeated);
  p.add(ExpertsLinear{row_outputs_, gated_, w2_, routing_.ends});
  p.step("sum of experts", is_repeated);
  p.add(Combine{p.summands(out), row_outputs_, routing_});
  p.sum_rows(out);
}

void Experts::backward(Program& p, const Ref& dx, const Ref& dout, const Ref& x) {
  p.step("w2's input gradient");
  p.add(Dispatch{rows_, p.all_rows(dout), routing_});
  p.add(ExpertsInputGradient{gated_gradient_, rows_, w2_, routing_.ends});
  p.step("the factors' gradient");
  p.add(Activate{s_.activation, activated_, gate_up_});
  p.add(FactorsGradient{factors_gradient_, gated_gradient_, activated_, routing_});
  p.add(ScaleSlots{gated_gradient_, routing_});
  // The input of w2 is nearly free to compute again, and large.
  p.add(ScaleSlots{activated_, routing_});
  if (p.in_halves()) {
    p.add(Copy{gated_, activated_});
  } else {
    p.step("w2's gradients");
    p.add(ExpertsWeightGradient{w2_, rows_, activated_, routing_.ends});
  }
  p.step("activation's gradient");
  p.add(ActivateGradient{s_.activation, gate_up_, gated_gradient_, Ref{}});
  p.step("w1's and w3's input gradient");
  p.add(ExpertsInputGradient{row_outputs_, gate_up_, w13_, routing_.ends});
  p.step("the router's gradient");
  p.add(Combine{p.summands(dx), row_outputs_, routing_});
  // The losses of the router itself count once: one of the ranks that share the layers adds them.
  Router router = router_;
  if (s_.tensor.rank > 0) router.balance = router.z_loss = 0;
  p.add(RouteGradient{router, s_.stage.first, logits_gradient_, factors_gradient_, routing_});
  p.add(RouterInputGradient{p.summands(dx), logits_gradient_, gate_});
  p.sum_rows(dx);
  if (!p.in_halves()) gradients_in(p, x);
}

void Experts::weight_gradients(Program& p, const Ref& dout, const Ref& x) {
  p.step("w2's gradients");
  p.add(Dispatch{rows_, p.all_rows(dout), routing_});
  p.add(ExpertsWeightGradient{w2_, rows_, gated_, routing_.ends});
  gradients_in(p, x);
}

void Experts::gradients_in(Program& p, const Ref& x) {
  p.step("w1's, w3's and the router's gradients");
  const Ref all = p.all_rows(x);
  p.add(RouterWeightGradient{gate_, logits_gradient_, all});
  p.add(Dispatch{rows_, all, routing_});
  p.add(ExpertsWeightGradient{w13_, gate_up_, rows_, routing_.ends});
}

}  // namespace hearth::models
