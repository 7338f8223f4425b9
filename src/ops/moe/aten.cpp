// SPDX-License-Identifier: Apache-2.0
// The functions of a routing by ATen: what a GPU runs. Sorts are stable, and every sum has one order.
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/div.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/one_hot.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/xlogy.h>
#include <ATen/ops/zeros_like.h>

#include <tuple>

#include "ops/moe/moe.h"
#include "ops/rows.h"
#include "ops/tensor.h"

namespace hearth::ops::aten {
namespace {

// The choices [N] of the slots, as an index; divided by k, their tokens.
at::Tensor choices_of(const RoutingTensors& by) { return by.choices_1N.flatten().to(at::kLong); }

// The sequence [T] of each row.
at::Tensor sequences_of(const models::SequenceRows& rows, const at::Tensor& of_TE) {
  const at::Tensor places = at::arange(of_TE.size(0), of_TE.options().dtype(at::kLong)) + rows.first;
  return at::div(places, rows.each, "floor");
}

}  // namespace

void route(const RoutingTensors& to, const at::Tensor& x_TD, const at::Tensor& gate_ED, const models::Router& router,
           const models::SequenceRows& sequences) {
  const at::ScalarType exact = to.scores_TE.scalar_type();
  const int64_t E = gate_ED.size(0), T = x_TD.size(0), k = router.top_k;
  const at::Tensor logits = at::matmul(x_TD.to(exact), gate_ED.to(exact).t());
  copy_(to.scores_TE, at::softmax(logits, -1));
  copy_(to.log_sums_1T, at::logsumexp(logits, -1).view({1, T}));
  const auto [sorted, order] = at::sort(to.scores_TE, /*stable=*/true, -1, /*descending=*/true);
  const at::Tensor best = sorted.narrow(1, 0, k), experts = order.narrow(1, 0, k).contiguous();
  copy_(to.experts_Tk, experts);
  const at::Tensor factors = router.normalizes ? best / best.sum(-1, /*keepdim=*/true) : best;

  const at::Tensor choices = std::get<1>(at::sort(experts.flatten(), /*stable=*/true, 0, /*descending=*/false));
  copy_(to.choices_1N, choices.view({1, T * k}));
  const at::Tensor slots = at::empty_like(choices);
  slots.scatter_(0, choices, at::arange(T * k, choices.options()));
  copy_(to.slots_Tk, slots.view({T, k}));
  copy_(to.factors_N1, (factors * router.scale).flatten().index_select(0, choices).view({T * k, 1}));
  const at::Tensor chosen = at::one_hot(experts, E).sum(1);
  zero_(to.loads_BE);
  to.loads_BE.index_add_(0, sequences_of(sequences, chosen), chosen.to(exact));  // whole numbers: any order
  copy_(to.ends_1E, at::cumsum(chosen.sum(0), 0).view({1, E}));
}

void dispatch(const at::Tensor& rows_ND, const at::Tensor& x_TD, const RoutingTensors& by) {
  const at::Tensor tokens = at::div(choices_of(by), by.experts_Tk.size(1), "floor");
  gather_rows(rows_ND, x_TD, tokens);
}

void combine(const at::Tensor& out_TD, const at::Tensor& rows_ND, const RoutingTensors& by) {
  const at::ScalarType exact = by.factors_N1.scalar_type();
  const at::Tensor slots = by.slots_Tk.to(at::kLong);
  at::Tensor sum = rows_ND.index_select(0, slots.select(1, 0)).to(exact);
  for (int64_t j = 1; j < slots.size(1); ++j) sum = sum + rows_ND.index_select(0, slots.select(1, j)).to(exact);
  copy_(out_TD, sum);
}

void scale_slots(const at::Tensor& rows_NF, const at::Tensor& factors_N1) {
  copy_(rows_NF, rows_NF.to(factors_N1.scalar_type()) * factors_N1);
}

void factors_gradient(const at::Tensor& dfactors_N1, const at::Tensor& drows_NF, const at::Tensor& rows_NF) {
  const at::ScalarType exact = dfactors_N1.scalar_type();
  copy_(dfactors_N1, (drows_NF.to(exact) * rows_NF.to(exact)).sum(-1, /*keepdim=*/true));
}

void route_gradient(const at::Tensor& dlogits_TE, const at::Tensor& dfactors_N1, const RoutingTensors& of,
                    const models::Router& router, const models::SequenceRows& sequences, int64_t S, double per_position,
                    const at::Tensor& sums_3) {
  const int64_t T = of.scores_TE.size(0), E = of.scores_TE.size(1), k = router.top_k;
  const at::Tensor scores = of.scores_TE, experts = of.experts_Tk.to(at::kLong), best = scores.gather(1, experts);
  const at::Tensor dfactors_Tk =
      dfactors_N1.flatten().index_select(0, of.slots_Tk.flatten().to(at::kLong)).view(experts.sizes());
  at::Tensor dbest = dfactors_Tk * router.scale;
  if (router.normalizes) {
    const at::Tensor sum = best.sum(-1, /*keepdim=*/true);
    dbest = (dbest - (dbest * best).sum(-1, /*keepdim=*/true) / sum) / sum;
  }
  at::Tensor dscores = at::zeros_like(scores).scatter(1, experts, dbest);
  if (router.balances()) {
    const double share = router.balance * per_position * static_cast<double>(E) / static_cast<double>(k * S);
    const at::Tensor pull_TE = (of.loads_BE * share).index_select(0, sequences_of(sequences, scores));
    dscores = dscores + pull_TE;
    if (sums_3.defined())
      add_(sums_3.select(0, kBalanceLoss), (pull_TE.to(at::kDouble) * scores.to(at::kDouble)).sum());
  }
  at::Tensor inner = dscores - (dscores * scores).sum(-1, /*keepdim=*/true);
  if (router.z_loss > 0) inner = inner + of.log_sums_1T.view({T, 1}) * (2 * router.z_loss * per_position);
  copy_(dlogits_TE, scores * inner);
  if (!sums_3.defined()) return;
  add_(sums_3.select(0, kZLoss), of.log_sums_1T.to(at::kDouble).square().sum() * (router.z_loss * per_position));
  add_(sums_3.select(0, kEntropy), at::xlogy(scores.to(at::kDouble), scores.to(at::kDouble)).sum() * -per_position);
}

}  // namespace hearth::ops::aten
