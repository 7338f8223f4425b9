// SPDX-License-Identifier: Apache-2.0
// RoutingTensors by the CPU's loops and by ATen, which a GPU runs; experts' products against each expert's own.
#include "ops/moe/moe.h"

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "ops/moe/arrivals.h"
#include "ops/step_decision.h"
#include "ops/tensor.h"
#include "support/distance.h"

namespace hearth::ops {
namespace {

constexpr int64_t B = 3, S = 17, T = B * S, E = 8, k = 3, D = 24, F = 10, N = T * k;

RoutingTensors empty_routing(at::ScalarType exact) {
  const auto numbers = [&](at::IntArrayRef shape) {
    return at::full(shape, std::numeric_limits<double>::quiet_NaN(), exact);
  };
  const auto places = [](at::IntArrayRef shape) { return at::full(shape, -1, at::kInt); };
  return {numbers({T, E}),    numbers({1, T}), places({T, k}), places({T, k}),
          places({1, T * k}), numbers({N, 1}), places({1, E}), numbers({B, E})};
}

struct Types {
  at::ScalarType rows, exact;
  double tolerance;
};
constexpr Types kTypes[] = {
    {at::kFloat, at::kFloat, 2e-6}, {at::kDouble, at::kDouble, 1e-14}, {at::kBFloat16, at::kFloat, 1e-2}};

const RoutedRows kSequences = {{0, S}};

models::Router router_of(bool normalizes) {
  return {.experts = E,
          .top_k = k,
          .score_func = config::ScoreFunc::kSoftmax,
          .groups = 1,
          .limited_groups = 1,
          .normalizes = normalizes,
          .scale = 1.7,
          .balance = 0.3,
          .z_loss = 0.02};
}
// DeepSeek-V3's: sigmoids, and experts of two of four groups.
models::Router deepseek_router(bool normalizes) {
  models::Router router = router_of(normalizes);
  router.score_func = config::ScoreFunc::kSigmoid;
  router.groups = 4;
  router.limited_groups = 2;
  router.z_loss = 0;
  return router;
}

TEST(Routing, OfTheLoopsAndOfAtenAreTheSame) {
  at::manual_seed(3);
  for (const Types& types : kTypes) {
    for (const models::Router& router :
         {router_of(false), router_of(true), deepseek_router(false), deepseek_router(true)}) {
      const bool has_bias = router.score_func == config::ScoreFunc::kSigmoid || router.normalizes;  // as ERNIE 4.5 has
      const at::Tensor x = at::randn({T, D}).to(types.rows);
      const RouterWeights weights{at::randn({E, D}).to(types.rows) * 0.2,
                                  has_bias ? (at::randn({E}) * 0.1).to(types.rows) : at::Tensor(),
                                  router.normalizes ? at::randn({E}).to(types.rows) : at::Tensor()};
      const RoutingTensors ours = empty_routing(types.exact), theirs = empty_routing(types.exact);
      route(ours, x, weights, router, kSequences);
      aten::route(theirs, x, weights, router, kSequences);
      at::Tensor logits = x.to(types.exact).matmul(weights.gate_ED.to(types.exact).t());
      if (router.normalizes) logits = logits + weights.logit_bias_E.to(types.exact);
      const bool is_softmax = router.score_func == config::ScoreFunc::kSoftmax;
      EXPECT_LT(hearth::test::relative_distance(ours.scores_TE, is_softmax ? logits.softmax(-1) : at::sigmoid(logits)),
                1e-5);
      for (const auto tensor : {&RoutingTensors::experts_Tk, &RoutingTensors::slots_Tk, &RoutingTensors::choices_1N,
                                &RoutingTensors::ends_1E, &RoutingTensors::loads_BE})
        EXPECT_TRUE(at::equal(ours.*tensor, theirs.*tensor));
      for (const auto tensor : {&RoutingTensors::scores_TE, &RoutingTensors::factors_N1})
        EXPECT_LT(hearth::test::relative_distance(ours.*tensor, theirs.*tensor), 1e-5);
      EXPECT_LT((ours.log_sums_1T - theirs.log_sums_1T).abs().max().item<double>(), 1e-5);
      EXPECT_EQ(ours.loads_BE.sum().item<double>(), N);
      EXPECT_EQ(ours.ends_1E[0][E - 1].item<int>(), N);

      const auto expect_same = [&](const at::Tensor& a, const at::Tensor& b) {
        EXPECT_LT(hearth::test::relative_distance(a, b), types.tolerance);
      };
      at::Tensor rows = at::zeros({N, D}, types.rows), other = at::zeros({N, D}, types.rows);
      dispatch(rows, x, ours);
      aten::dispatch(other, x, ours);
      EXPECT_TRUE(at::equal(rows, other));
      scale_slots(rows, ours.factors_N1);
      aten::scale_slots(other, ours.factors_N1);
      expect_same(rows, other);
      at::Tensor out = at::zeros({T, D}, types.rows), other_out = at::zeros({T, D}, types.rows);
      combine(out, rows, ours, /*adds=*/false);
      aten::combine(other_out, rows, ours, /*adds=*/false);
      expect_same(out, other_out);
      at::Tensor more = out.clone(), other_more = out.clone();
      combine(more, rows, ours, /*adds=*/true);
      aten::combine(other_more, rows, ours, /*adds=*/true);
      expect_same(more, out * 2);
      expect_same(other_more, out * 2);
      // Scaled and added, the rows of a token are its row times the sum of its factors.
      const at::Tensor of_choices = ours.factors_N1.flatten().index_select(0, ours.slots_Tk.flatten().to(at::kLong));
      expect_same(out, x.to(types.exact) * of_choices.view({T, k}).sum(-1, true));
      at::Tensor dfactors = at::zeros({N, 1}, types.exact), other_dfactors = at::zeros({N, 1}, types.exact);
      const at::Tensor drows = at::randn({N, D}).to(types.rows);
      factors_gradient(dfactors, drows, rows);
      aten::factors_gradient(other_dfactors, drows, rows);
      EXPECT_LT(hearth::test::relative_distance(dfactors, other_dfactors), 1e-5);
      at::Tensor dlogits = at::zeros({T, E}, types.exact), other_dlogits = at::zeros({T, E}, types.exact);
      const at::Tensor sums = at::ones({kNumRouterSums}, at::kDouble), other_sums = at::ones_like(sums);
      route_gradient(dlogits, dfactors, ours, router, kSequences, S, 0.01, sums);
      aten::route_gradient(other_dlogits, dfactors, ours, router, kSequences, S, 0.01, other_sums);
      // arXiv 2412.19437, equation 17, of each sequence; per_position is 1 / all positions of a step.
      const at::Tensor scores = ours.scores_TE.to(at::kDouble);
      const at::Tensor p_BSE = (scores / scores.sum(-1, true)).view({B, S, E}), n_BE = ours.loads_BE.to(at::kDouble);
      const double balance = (n_BE * (static_cast<double>(E) / (k * S)) * p_BSE.mean(1)).sum().item<double>();
      EXPECT_NEAR(sums[kBalanceLoss].item<double>(), 1 + router.balance * 0.01 * S * balance, 1e-6);
      EXPECT_NEAR(sums[kZLoss].item<double>(),
                  1 + router.z_loss * 0.01 * ours.log_sums_1T.to(at::kDouble).square().sum().item<double>(), 1e-6);
      EXPECT_NEAR(sums[kEntropy].item<double>(), 1 - 0.01 * (p_BSE * p_BSE.log()).sum().item<double>(), 1e-6);
      EXPECT_LT(hearth::test::relative_distance(sums, other_sums), 1e-6);
      EXPECT_LT(hearth::test::relative_distance(dlogits, other_dlogits), 1e-5);
    }
  }
}

// bfloat16 logits tie often. A tie that falls otherwise on another device, or in another step, is another model.
TEST(Routing, TakesTheFirstOfEqualExperts) {
  const at::Tensor x = at::ones({T, D}), gate = at::zeros({E, D});
  gate[5].fill_(0.1);  // the best; all others tie
  for (const auto by : {route, aten::route}) {
    const RoutingTensors routing = empty_routing(at::kFloat);
    by(routing, x, {gate}, router_of(true), kSequences);
    for (int64_t t = 0; t < T; ++t) {
      EXPECT_EQ(routing.experts_Tk[t][0].item<int>(), 5);
      EXPECT_EQ(routing.experts_Tk[t][1].item<int>(), 0);
      EXPECT_EQ(routing.experts_Tk[t][2].item<int>(), 1);
      EXPECT_EQ(routing.slots_Tk[t][1].item<int>(), t) << "slots of an expert are in the order of tokens";
    }
  }
}

// arXiv 2412.19437, section 2.1.2, token by token.
TEST(Routing, ChoosesByScoreAndBiasWithinTheBestGroupsAndWeighsByScore) {
  at::manual_seed(8);
  const at::Tensor x = at::randn({T, D}), gate = at::randn({E, D}) * 0.2, bias = at::randn({E}) * 0.3;
  const at::Tensor scores = at::sigmoid(x.matmul(gate.t()));
  const models::Router router = deepseek_router(true);
  bool bias_matters = false, groups_matter = false;
  for (const auto by : {route, aten::route}) {
    const RoutingTensors routing = empty_routing(at::kFloat);
    by(routing, x, {gate, bias}, router, kSequences);
    for (int64_t t = 0; t < T; ++t) {
      const auto score = [&](int64_t e) { return scores[t][e].item<float>(); };
      const auto choice = [&](int64_t e) { return score(e) + bias[e].item<float>(); };
      const auto of_group = [&](int64_t e) { return choice(e / 2 * 2) + choice(e / 2 * 2 + 1); };
      std::vector<int64_t> experts(E);
      std::iota(experts.begin(), experts.end(), 0);
      const auto best = [&](const auto& of) {
        std::vector<int64_t> sorted = experts;
        std::stable_sort(sorted.begin(), sorted.end(), [&](int64_t a, int64_t b) { return of(a) > of(b); });
        sorted.resize(k);
        return sorted;
      };
      const std::vector<int64_t> without_groups = best(choice), without_bias = best(score);
      std::stable_sort(experts.begin(), experts.end(), [&](int64_t a, int64_t b) { return of_group(a) > of_group(b); });
      experts.resize(4);  // of two groups
      const std::vector<int64_t> expected = best(choice);
      bias_matters = bias_matters || without_bias != without_groups;
      groups_matter = groups_matter || expected != without_groups;
      float sum = 0;
      for (const int64_t e : expected) sum += score(e);
      for (int64_t j = 0; j < k; ++j) {
        const int64_t e = expected[static_cast<size_t>(j)];
        EXPECT_EQ(routing.experts_Tk[t][j].item<int64_t>(), e) << t;
        EXPECT_NEAR(routing.factors_N1[routing.slots_Tk[t][j].item<int64_t>()][0].item<double>(), 1.7 * score(e) / sum,
                    1e-6);
      }
    }
  }
  EXPECT_TRUE(bias_matters && groups_matter);
}

// arXiv 2408.15664, algorithm 1; a part of the experts, as a rank of ZeRO has it.
TEST(Routing, MovesTheBiasOfAnExpertTowardsTheMeanLoad) {
  const at::Tensor loads = at::tensor({5.0, 3.0, 4.0, 0.0, 8.0, 4.0, 4.0, 4.0});  // the mean is 4
  at::Tensor bias = at::zeros({4});
  balance_bias(bias, loads, /*first=*/1, 0.25, decided(/*t=*/1));
  EXPECT_TRUE(at::equal(bias, at::tensor({0.25F, 0.0F, 0.25F, -0.25F})));
  at::Tensor skipped = decided(/*t=*/2);
  reinterpret_cast<kernels::Decision*>(skipped.data_ptr())->apply = 0;
  balance_bias(bias, loads, /*first=*/1, 0.25, skipped);
  EXPECT_TRUE(at::equal(bias, at::tensor({0.25F, 0.0F, 0.25F, -0.25F})));
}

// The second of two ranks that share the layers: its rows begin within a sequence.
TEST(Routing, CountsTheLoadsOfSequencesFromAnyRowOn) {
  at::manual_seed(5);
  const at::Tensor x = at::randn({T, D}), gate = at::randn({E, D});
  const RoutingTensors all = empty_routing(at::kFloat);
  route(all, x, {gate}, router_of(true), kSequences);
  constexpr int64_t kFirst = 20, kRows = T - kFirst;
  for (const auto by : {route, aten::route}) {
    RoutingTensors part = empty_routing(at::kFloat);
    part.scores_TE = part.scores_TE.narrow(0, 0, kRows);
    part.log_sums_1T = part.log_sums_1T.narrow(1, 0, kRows);
    for (at::Tensor* rows : {&part.experts_Tk, &part.slots_Tk}) *rows = rows->narrow(0, 0, kRows);
    part.choices_1N = part.choices_1N.narrow(1, 0, kRows * k);
    part.factors_N1 = part.factors_N1.narrow(0, 0, kRows * k);
    by(part, x.narrow(0, kFirst, kRows), {gate}, router_of(true), {{kFirst, S}});
    at::Tensor expected = at::zeros({B, E});
    for (int64_t t = kFirst; t < T; ++t)
      for (int64_t j = 0; j < k; ++j) expected[t / S][all.experts_Tk[t][j].item<int64_t>()] += 1;
    EXPECT_TRUE(at::equal(part.loads_BE, expected));
  }
}

// One sequence is full, one has five tokens, and one is padding alone: as if each sequence had its tokens alone.
TEST(Routing, CountsNoPadding) {
  at::manual_seed(9);
  constexpr double kPart = 0.01;
  const int64_t lengths[] = {S, 5, 0};
  at::Tensor counts = at::zeros({T});
  for (int64_t b = 0; b < B; ++b) counts.narrow(0, b * S, lengths[b]).fill_(1);
  const RoutedRows rows{{0, S}, counts, at::tensor({static_cast<float>(S), 5.0F, 0.0F})};
  const at::Tensor x = at::randn({T, D}, at::kDouble), gate = at::randn({E, D}, at::kDouble) * 0.2;
  const at::Tensor factors_gradient_Tk = at::randn({T, k}, at::kDouble);
  struct Outcome {
    at::Tensor dlogits, sums, loads;
  };
  const auto run = [&](int64_t first, int64_t count, const RoutedRows& of, int64_t length, double part,
                       const models::Router& router, bool by_aten) {
    RoutingTensors to = empty_routing(at::kDouble);
    for (at::Tensor* tensor : {&to.scores_TE, &to.experts_Tk, &to.slots_Tk}) *tensor = tensor->narrow(0, 0, count);
    for (at::Tensor* tensor : {&to.log_sums_1T}) *tensor = tensor->narrow(1, 0, count);
    to.choices_1N = to.choices_1N.narrow(1, 0, count * k);
    to.factors_N1 = to.factors_N1.narrow(0, 0, count * k);
    if (count < T) to.loads_BE = to.loads_BE.narrow(0, 0, 1);
    (by_aten ? aten::route : route)(to, x.narrow(0, first, count), {gate}, router, of);
    const at::Tensor dfactors = at::zeros({count * k, 1}, at::kDouble);
    dfactors.flatten().index_copy_(0, to.slots_Tk.flatten().to(at::kLong),
                                   factors_gradient_Tk.narrow(0, first, count).flatten());
    Outcome found{at::zeros({count, E}, at::kDouble), at::zeros({kNumRouterSums}, at::kDouble),
                  at::zeros({E}, at::kDouble)};
    (by_aten ? aten::route_gradient : route_gradient)(found.dlogits, dfactors, to, router, of, length, part,
                                                      found.sums);
    add_loads(found.loads, to, of);
    return found;
  };
  for (const models::Router& router : {router_of(true), deepseek_router(true)}) {
    models::Router without_losses = router;
    without_losses.balance = without_losses.z_loss = 0;
    for (const bool by_aten : {false, true}) {
      const Outcome all = run(0, T, rows, S, kPart, router, by_aten);
      const Outcome plain = run(0, T, rows, S, kPart, without_losses, by_aten);
      at::Tensor sums = at::zeros({kNumRouterSums}, at::kDouble), loads = at::zeros({E}, at::kDouble);
      for (int64_t b = 0; b < B; ++b) {
        const int64_t first = b * S, length = lengths[b];
        if (length > 0) {
          const RoutedRows alone{{0, length}};
          const double part = kPart * static_cast<double>(S) / static_cast<double>(length);
          const Outcome own = run(first, length, alone, length, part, router, by_aten);
          EXPECT_LT(hearth::test::relative_distance(all.dlogits.narrow(0, first, length), own.dlogits), 1e-12);
          sums += own.sums;
          loads += own.loads;
        }
        if (length < S) {
          EXPECT_TRUE(at::equal(all.dlogits.narrow(0, first + length, S - length),
                                plain.dlogits.narrow(0, first + length, S - length)));
        }
      }
      EXPECT_LT(hearth::test::relative_distance(all.sums, sums), 1e-12);
      EXPECT_TRUE(at::equal(all.loads, loads));
      EXPECT_EQ(loads.sum().item<double>(), (S + 5) * k);
    }
  }
}

// Three ranks send to one with two experts.
TEST(Routing, SortsRowsThatArriveByExpertAndThenByRank) {
  const int64_t counts[] = {2, 1, 0, 3, 1, 0};  // of each rank and expert
  const ArrivingRows rows = arriving_rows(counts, 3);
  EXPECT_EQ(rows.of_rank, (std::vector<int64_t>{3, 3, 1}));
  EXPECT_EQ(rows.order, (std::vector<int64_t>{0, 1, 6, 2, 3, 4, 5}));
  EXPECT_EQ(rows.ends, (std::vector<int32_t>{3, 7}));
  EXPECT_EQ(to_int64s(counts_of(at::tensor({2, 2, 7}, at::kInt).view({1, 3}))), (std::vector<int64_t>{2, 0, 5}));
}

TEST(Experts, MultiplyTheirOwnRows) {
  at::manual_seed(4);
  const int32_t ends[] = {4, 4, 9, 10, 31, 31, 40, static_cast<int32_t>(N)};  // two experts have no rows
  const at::Tensor ends_1E = from_int32(ends).view({1, E});
  for (const Types& types : kTypes) {
    const at::Tensor x = at::randn({N, D}).to(types.rows), w = at::randn({E * F, D}).to(types.rows);
    const at::Tensor dy = at::randn({N, F}).to(types.rows), out = at::zeros({N, F}, types.rows);
    const at::Tensor dx = at::zeros({N, D}, types.rows);
    at::Tensor dw = at::full({E * F, D}, 7.0, types.exact);
    experts_matmul(out, x, w, ends_1E);
    experts_input_gradient(dx, dy, w, ends_1E);
    experts_weight_gradient(dw, dy, x, ends_1E, /*accumulate=*/false);
    const at::Tensor once = dw.clone();
    experts_weight_gradient(dw, dy, x, ends_1E, /*accumulate=*/true);
    EXPECT_LT(hearth::test::relative_distance(dw, once * 2), types.tolerance);
    for (int64_t e = 0, begin = 0; e < E; begin = ends[e++]) {
      const auto part = [&](const at::Tensor& rows) { return rows.narrow(0, begin, ends[e] - begin).to(at::kDouble); };
      const auto own = [&](const at::Tensor& all) { return all.narrow(0, e * F, F).to(at::kDouble); };
      if (ends[e] == begin) {
        EXPECT_EQ(own(once).abs().sum().item<double>(), 0);
        continue;
      }
      EXPECT_LT(hearth::test::relative_distance(part(out), part(x).matmul(own(w).t())), types.tolerance);
      EXPECT_LT(hearth::test::relative_distance(part(dx), part(dy).matmul(own(w))), types.tolerance);
      EXPECT_LT(hearth::test::relative_distance(own(once), part(dy).t().matmul(part(x))), types.tolerance);
    }
  }
}

TEST(Experts, AddTheirOwnBiases) {
  at::manual_seed(6);
  const int32_t ends[] = {4, 4, 9, 10, 31, 31, 40, static_cast<int32_t>(N)};  // two experts have no rows
  const at::Tensor ends_1E = from_int32(ends).view({1, E});
  const at::Tensor expert_N = at::searchsorted(ends_1E.flatten(), at::arange(N), /*out_int32=*/false, /*right=*/true);
  for (const Types& types : kTypes) {
    const at::Tensor x = at::randn({N, F}).to(types.rows), bias = at::randn({E * F}).to(types.rows);
    const at::Tensor factors = at::randn({N, 1}).to(types.exact), dfactors = at::randn({N, 1}).to(types.exact);
    const at::Tensor of_rows = bias.view({E, F}).index_select(0, expert_N).to(at::kDouble);  // [N, F]
    for (const bool weighs : {false, true}) {
      const at::Tensor weight = weighs ? factors : at::Tensor();
      const at::Tensor share = weighs ? factors.to(at::kDouble) : at::ones({N, 1}, at::kDouble);
      const at::Tensor sum = x.clone(), dbias = at::full({E * F}, 2.0, types.exact);
      add_experts_bias(sum, bias, ends_1E, weight);
      EXPECT_LT(hearth::test::relative_distance(sum, x.to(at::kDouble) + share * of_rows), types.tolerance);
      experts_bias_gradient(dbias, x, ends_1E, weight);
      const at::Tensor expected =
          at::full({E, F}, 2.0, at::kDouble).index_add(0, expert_N, x.to(at::kDouble) * share).flatten();
      EXPECT_LT(hearth::test::relative_distance(dbias, expected), types.tolerance);
    }
    const at::Tensor more = dfactors.clone();
    bias_factors_gradient(more, x, bias, ends_1E);
    EXPECT_LT(hearth::test::relative_distance(
                  more, dfactors.to(at::kDouble) + (x.to(at::kDouble) * of_rows).sum(-1, /*keepdim=*/true)),
              types.tolerance);
  }
}

}  // namespace
}  // namespace hearth::ops
