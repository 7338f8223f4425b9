// SPDX-License-Identifier: Apache-2.0
// The functions of a routing by ATen: what a GPU runs. Sorts are stable, and every sum has one order.
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/clamp_min.h>
#include <ATen/ops/cumsum.h>
#include <ATen/ops/div.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/one_hot.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/rsub.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/xlogy.h>
#include <ATen/ops/zeros_like.h>

#include <limits>
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

// What experts are chosen by: scores with their bias, minus infinity outside a token's best groups.
at::Tensor choice_of(const at::Tensor& scores_TE, const at::Tensor& bias_E, const models::Router& router) {
  const at::Tensor choice = bias_E.defined() ? scores_TE + bias_E.to(scores_TE.scalar_type()) : scores_TE;
  if (router.limited_groups == router.groups) return choice;
  const int64_t T = choice.size(0), G = router.groups;
  const at::Tensor grouped = choice.view({T, G, -1});
  const at::Tensor best_two =
      std::get<0>(at::sort(grouped, /*stable=*/true, -1, /*descending=*/true)).narrow(-1, 0, 2).sum(-1);
  const at::Tensor kept = std::get<1>(at::sort(best_two, /*stable=*/true, -1, /*descending=*/true));
  const at::Tensor away = at::ones_like(best_two, best_two.options().dtype(at::kBool))
                              .scatter(1, kept.narrow(1, 0, router.limited_groups), false);
  return grouped.masked_fill(away.unsqueeze(-1), -std::numeric_limits<double>::infinity()).view_as(choice);
}

// 1 for a token and 0 for padding, of T rows.
at::Tensor tokens_of(const RoutedRows& rows, int64_t T) { return rows.counts_T.narrow(0, rows.sequences.first, T); }

// A row's part of a mean over sequences, [T, 1] float64.
at::Tensor parts_of(const RoutedRows& rows, const at::Tensor& sequences_T, int64_t S, double per_position) {
  const int64_t T = sequences_T.numel();
  if (!rows.are_padded()) return at::full({T, 1}, per_position, sequences_T.options().dtype(at::kDouble));
  const at::Tensor tokens_T = rows.tokens_B.to(at::kDouble).clamp_min(1).index_select(0, sequences_T);
  const double whole = per_position * static_cast<double>(S);
  return (tokens_of(rows, T).to(at::kDouble) * whole / tokens_T).view({T, 1});
}

at::Tensor sum_of(const at::Tensor& scores) { return scores.sum(-1, /*keepdim=*/true) + kLeastSum; }

}  // namespace

void route(const RoutingTensors& to, const at::Tensor& x_TD, const RouterWeights& weights, const models::Router& router,
           const RoutedRows& rows) {
  const at::ScalarType exact = to.scores_TE.scalar_type();
  const int64_t E = weights.gate_ED.size(0), T = x_TD.size(0), k = router.top_k;
  const at::Tensor products = at::matmul(x_TD.to(exact), weights.gate_ED.to(exact).t());
  const at::Tensor logits = weights.logit_bias_E.defined() ? products + weights.logit_bias_E.to(exact) : products;
  if (router.score_func == config::ScoreFunc::kSoftmax) {
    copy_(to.scores_TE, at::softmax(logits, -1));
    copy_(to.log_sums_1T, at::logsumexp(logits, -1).view({1, T}));
  } else {
    copy_(to.scores_TE, at::sigmoid(logits));
    zero_(to.log_sums_1T);
  }
  const at::Tensor order = std::get<1>(at::sort(choice_of(to.scores_TE, weights.bias_E, router), /*stable=*/true, -1,
                                                /*descending=*/true));
  const at::Tensor experts = order.narrow(1, 0, k).contiguous(), best = to.scores_TE.gather(1, experts);
  copy_(to.experts_Tk, experts);
  const at::Tensor factors = router.normalizes ? best / sum_of(best) : best;

  const at::Tensor choices = std::get<1>(at::sort(experts.flatten(), /*stable=*/true, 0, /*descending=*/false));
  copy_(to.choices_1N, choices.view({1, T * k}));
  const at::Tensor slots = at::empty_like(choices);
  slots.scatter_(0, choices, at::arange(T * k, choices.options()));
  copy_(to.slots_Tk, slots.view({T, k}));
  copy_(to.factors_N1, (factors * router.scale).flatten().index_select(0, choices).view({T * k, 1}));
  const at::Tensor chosen = at::one_hot(experts, E).sum(1);
  at::Tensor counted = chosen.to(exact);
  if (rows.are_padded()) counted = counted * tokens_of(rows, T).to(exact).view({T, 1});
  zero_(to.loads_BE);
  to.loads_BE.index_add_(0, sequences_of(rows.sequences, chosen), counted);  // whole numbers: any order
  copy_(to.ends_1E, at::cumsum(chosen.sum(0), 0).view({1, E}));
}

void dispatch(const at::Tensor& rows_ND, const at::Tensor& x_TD, const RoutingTensors& by) {
  const at::Tensor tokens = at::div(choices_of(by), by.experts_Tk.size(1), "floor");
  gather_rows(rows_ND, x_TD, tokens);
}

void combine(const at::Tensor& out_TD, const at::Tensor& rows_ND, const RoutingTensors& by, bool adds) {
  const at::ScalarType exact = by.factors_N1.scalar_type();
  const at::Tensor slots = by.slots_Tk.to(at::kLong);
  at::Tensor sum = rows_ND.index_select(0, slots.select(1, 0)).to(exact);
  if (adds) sum = out_TD.to(exact) + sum;
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
                    const models::Router& router, const RoutedRows& rows, int64_t S, double per_position,
                    const at::Tensor& sums_3) {
  const int64_t T = of.scores_TE.size(0), E = of.scores_TE.size(1), k = router.top_k;
  const at::Tensor scores = of.scores_TE, experts = of.experts_Tk.to(at::kLong), best = scores.gather(1, experts);
  const bool is_softmax = router.score_func == config::ScoreFunc::kSoftmax;
  const at::Tensor shares = is_softmax ? scores : scores / sum_of(scores);  // of a token's experts
  const at::Tensor dfactors_Tk =
      dfactors_N1.flatten().index_select(0, of.slots_Tk.flatten().to(at::kLong)).view(experts.sizes());
  at::Tensor dbest = dfactors_Tk * router.scale;
  if (router.normalizes) {
    const at::Tensor sum = sum_of(best);
    dbest = (dbest - (dbest * best).sum(-1, /*keepdim=*/true) / sum) / sum;
  }
  at::Tensor dscores = at::zeros_like(scores).scatter(1, experts, dbest);
  const at::Tensor sequences = sequences_of(rows.sequences, scores);
  const at::Tensor part_T1 = parts_of(rows, sequences, S, per_position);
  if (router.balances()) {
    const double share = router.balance * static_cast<double>(E) / static_cast<double>(k);
    const at::Tensor tokens_B = rows.are_padded() ? rows.tokens_B.to(at::kDouble).clamp_min(1)
                                                  : at::full({of.loads_BE.size(0)}, S, part_T1.options());
    const at::Tensor f_BE = of.loads_BE.to(at::kDouble) * share / tokens_B.unsqueeze(1);
    const at::Tensor pull_TE = (f_BE.index_select(0, sequences) * part_T1).to(scores.scalar_type());
    dscores =
        dscores + (is_softmax ? pull_TE : (pull_TE - (pull_TE * shares).sum(-1, /*keepdim=*/true)) / sum_of(scores));
    if (sums_3.defined())
      add_(sums_3.select(0, kBalanceLoss), (pull_TE.to(at::kDouble) * shares.to(at::kDouble)).sum());
  }
  if (sums_3.defined())
    add_(sums_3.select(0, kEntropy), (at::xlogy(shares.to(at::kDouble), shares.to(at::kDouble)) * -part_T1).sum());
  if (!is_softmax) return copy_(dlogits_TE, dscores * scores * (1 - scores));
  at::Tensor inner = dscores - (dscores * scores).sum(-1, /*keepdim=*/true);
  const at::Tensor log_sums_T1 = of.log_sums_1T.view({T, 1});
  if (router.z_loss > 0) inner = inner + log_sums_T1 * (part_T1 * (2 * router.z_loss)).to(scores.scalar_type());
  copy_(dlogits_TE, scores * inner);
  if (!sums_3.defined()) return;
  add_(sums_3.select(0, kZLoss), (log_sums_T1.to(at::kDouble).square() * part_T1).sum() * router.z_loss);
}

}  // namespace hearth::ops::aten
