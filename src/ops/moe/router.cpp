// SPDX-License-Identifier: Apache-2.0
// The router of a mixture of experts: which experts a token gets, and its gradient.
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/mv.h>
#include <ATen/ops/one_hot.h>
#include <ATen/ops/sign.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>
#include <vector>

#include "base/error.h"
#include "kernels/step_decision.h"
#include "ops/access.h"
#include "ops/gpu/gpu.h"
#include "ops/matmul.h"
#include "ops/moe/arrivals.h"
#include "ops/moe/moe.h"
#include "ops/rows.h"
#include "ops/tensor.h"
#include "trace/spans.h"

namespace hearth::ops {
namespace {

constexpr int64_t kTokensOfTask = 64;
constexpr int64_t kRows = 1024;  // rows of bfloat16 that are widened at a time

// Pointers to a routing whose exact numbers are of type X.
template <class X>
struct Pointers {
  int64_t T, E, k;
  X *scores, *log_sums, *factors, *loads;
  int32_t *experts, *slots, *choices, *ends;

  explicit Pointers(const RoutingTensors& r)
      : T(r.scores_TE.size(0)),
        E(r.scores_TE.size(1)),
        k(r.experts_Tk.size(1)),
        scores(flat<X>(r.scores_TE, T * E)),
        log_sums(flat<X>(r.log_sums_1T, T)),
        factors(flat<X>(r.factors_N1, T * k)),
        loads(flat<X>(r.loads_BE, r.loads_BE.size(0) * E)),
        experts(flat<int32_t>(r.experts_Tk, T * k)),
        slots(flat<int32_t>(r.slots_Tk, T * k)),
        choices(flat<int32_t>(r.choices_1N, T * k)),
        ends(flat<int32_t>(r.ends_1E, E)) {}
};

// Logits -> their softmax; returns their log-sum-exp.
template <class X>
X softmax(X* row, int64_t n) {
  const X largest = *std::max_element(row, row + n);
  X sum = 0;
  for (int64_t e = 0; e < n; ++e) sum += row[e] = std::exp(row[e] - largest);
  for (int64_t e = 0; e < n; ++e) row[e] /= sum;
  return largest + std::log(sum);
}

// The k experts with the largest scores, best first; of equal scores the first.
template <class X>
void choose(int32_t* experts, const X* scores, int64_t E, int64_t k) {
  int64_t found = 0;
  for (int64_t e = 0; e < E; ++e) {
    int64_t place = found;
    while (place > 0 && scores[e] > scores[experts[place - 1]]) --place;
    if (place == k) continue;
    found = std::min(found + 1, k);
    std::copy_backward(experts + place, experts + found - 1, experts + found);
    experts[place] = static_cast<int32_t>(e);
  }
}

template <class X>
void sigmoid(X* row, int64_t n) {
  std::transform(row, row + n, row, [](X x) { return 1 / (1 + std::exp(-x)); });
}

// Takes the experts outside the best groups out of a choice.
template <class X>
void leave_best_groups(std::vector<X>& choice, const models::Router& router) {
  const int64_t each = std::ssize(choice) / router.groups;
  std::vector<X> of_groups;
  for (auto group = choice.begin(); group != choice.end(); group += each) {
    X best = std::max(group[0], group[1]), second = std::min(group[0], group[1]);
    for (auto score = group + 2; score != group + each; ++score) {
      second = std::max(second, std::min(best, *score));
      best = std::max(best, *score);
    }
    of_groups.push_back(best + second);
  }
  std::vector<int32_t> kept(static_cast<size_t>(router.limited_groups));
  choose(kept.data(), of_groups.data(), router.groups, router.limited_groups);
  for (int64_t group = 0; group < router.groups; ++group)
    if (std::find(kept.begin(), kept.end(), group) == kept.end())
      std::fill_n(choice.begin() + group * each, each, -std::numeric_limits<X>::infinity());
}

// Logits -> scores, and the choice. `bias` may be null.
template <class X>
void choose_experts(const Pointers<X>& r, const models::Router& router, const X* bias) {
  const bool limits = router.limited_groups < router.groups;
  at::parallel_for(0, r.T, kTokensOfTask, [&](int64_t begin, int64_t end) {
    std::vector<X> choice(static_cast<size_t>(r.E));
    for (int64_t t = begin; t < end; ++t) {
      X* const scores = r.scores + t * r.E;
      if (router.score_func == config::ScoreFunc::kSoftmax) {
        r.log_sums[t] = softmax(scores, r.E);
      } else {
        sigmoid(scores, r.E);
        r.log_sums[t] = 0;
      }
      if (bias == nullptr && !limits) {
        choose(r.experts + t * r.k, scores, r.E, r.k);
        continue;
      }
      for (int64_t e = 0; e < r.E; ++e) choice[static_cast<size_t>(e)] = scores[e] + (bias != nullptr ? bias[e] : X{0});
      if (limits) leave_best_groups(choice, router);
      choose(r.experts + t * r.k, choice.data(), r.E, r.k);
    }
  });
}

template <class X>
void weigh_slots(const Pointers<X>& r, const models::Router& router) {
  at::parallel_for(0, r.T, kTokensOfTask, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const X* const scores = r.scores + t * r.E;
      const int32_t* const experts = r.experts + t * r.k;
      X sum = 0;
      for (int64_t j = 0; j < r.k; ++j) sum += scores[experts[j]];
      const X factor = static_cast<X>(router.scale) / (router.normalizes ? sum + static_cast<X>(kLeastSum) : X{1});
      for (int64_t j = 0; j < r.k; ++j) r.factors[r.slots[t * r.k + j]] = factor * scores[experts[j]];
    }
  });
}

// A stable counting sort of the choices by expert.
template <class X>
void sort_choices(const Pointers<X>& r) {
  std::vector<int32_t> next(static_cast<size_t>(r.E) + 1);
  for (int64_t i = 0; i < r.T * r.k; ++i) ++next[static_cast<size_t>(r.experts[i]) + 1];
  for (size_t e = 1; e < next.size(); ++e) next[e] += next[e - 1];
  std::copy(next.begin() + 1, next.end(), r.ends);
  for (int64_t i = 0; i < r.T * r.k; ++i) {
    const int32_t slot = next[static_cast<size_t>(r.experts[i])]++;
    r.slots[i] = slot;
    r.choices[slot] = static_cast<int32_t>(i);
  }
}

// RoutedRows on the host.
class Rows {
 public:
  explicit Rows(const RoutedRows& rows)
      : first_(rows.sequences.first),
        each_(rows.sequences.each),
        counts_(rows.are_padded() ? flat<const float>(rows.counts_T, rows.counts_T.numel()) : nullptr),
        tokens_(rows.are_padded() ? flat<const float>(rows.tokens_B, rows.tokens_B.numel()) : nullptr) {}

  bool is_token(int64_t row) const { return counts_ == nullptr || counts_[first_ + row] > 0; }
  int64_t sequence(int64_t row) const { return (first_ + row) / each_; }
  double tokens(int64_t sequence, int64_t S) const {
    return static_cast<double>(tokens_ == nullptr ? static_cast<float>(S) : tokens_[sequence]);
  }

 private:
  int64_t first_, each_;
  const float *counts_, *tokens_;
};

template <class X>
void count_loads(const Pointers<X>& r, int64_t B, const Rows& rows) {
  std::fill_n(r.loads, B * r.E, X{0});
  for (int64_t i = 0; i < r.T * r.k; ++i)
    if (rows.is_token(i / r.k)) r.loads[rows.sequence(i / r.k) * r.E + r.experts[i]] += 1;
}

// Calls body with float or double: the type of a routing's exact numbers.
template <class Body>
void with_exact(const RoutingTensors& r, const Body& body) {
  is_float64(r.scores_TE) ? body(double()) : body(float());
}
// A product whose result is exact, of bfloat16 or exact factors. Rows of bfloat16 are widened some at a time.
void exact_matmul(const at::Tensor& out_MN, const at::Tensor& a_MK, const at::Tensor& b_NK) {
  const at::Tensor b = b_NK.to(out_MN.scalar_type());
  for (int64_t row = 0; row < a_MK.size(0); row += kRows) {
    const int64_t count = std::min(kRows, a_MK.size(0) - row);
    matmul(out_MN.narrow(0, row, count), a_MK.narrow(0, row, count).to(out_MN.scalar_type()), b);
  }
}

}  // namespace

void route(const RoutingTensors& to, const at::Tensor& x_TD, const RouterWeights& weights, const models::Router& router,
           const RoutedRows& rows) {
  const trace::SpanScope span(trace::SpanKind::kOp, "route");
  HEARTH_CHECK(x_TD.size(0) * router.top_k <= std::numeric_limits<int32_t>::max(), "{} rows", x_TD.size(0));
  if (on_gpu(x_TD)) return aten::route(to, x_TD, weights, router, rows);
  exact_matmul(to.scores_TE, x_TD, weights.gate_ED);
  if (weights.logit_bias_E.defined()) add_bias(to.scores_TE, weights.logit_bias_E.to(to.scores_TE.scalar_type()));
  const at::Tensor bias = weights.bias_E.defined() ? weights.bias_E.to(to.scores_TE.scalar_type()) : at::Tensor();
  with_exact(to, [&](auto zero) {
    using X = decltype(zero);
    const Pointers<X> r(to);
    choose_experts(r, router, bias.defined() ? flat<const X>(bias, r.E) : nullptr);
    sort_choices(r);
    weigh_slots(r, router);
    count_loads(r, to.loads_BE.size(0), Rows(rows));
  });
}

namespace {

// The sum of a token's sigmoids.
template <class X>
double sum_of(const X* scores, int64_t n) {
  return std::accumulate(scores, scores + n, kLeastSum);
}

// One token's gradient of the logits. `dfactors` is by slots. `dscores` [E] is scratch; `pull` [E] is the balancing
// loss's gradient of the scores, or null.
template <class X>
void logits_gradient(X* dlogits, std::vector<double>& dscores, const X* dfactors, const Pointers<X>& r, int64_t t,
                     const models::Router& router, const double* pull, double z_factor) {
  const X* const scores = r.scores + t * r.E;
  const int32_t *const experts = r.experts + t * r.k, *const slots = r.slots + t * r.k;
  const bool is_softmax = router.score_func == config::ScoreFunc::kSoftmax;
  std::fill(dscores.begin(), dscores.end(), 0.0);
  if (pull != nullptr) {
    const double of_all = is_softmax ? 1 : sum_of(scores, r.E);
    const double mean_pull = is_softmax ? 0 : std::inner_product(pull, pull + r.E, scores, 0.0) / of_all;
    for (int64_t e = 0; e < r.E; ++e) dscores[static_cast<size_t>(e)] = (pull[e] - mean_pull) / of_all;
  }
  double sum = 1, mean = 0;  // of the chosen scores; of their gradients
  if (router.normalizes) {
    sum = kLeastSum;
    for (int64_t j = 0; j < r.k; ++j) sum += scores[experts[j]];
    for (int64_t j = 0; j < r.k; ++j) mean += static_cast<double>(dfactors[slots[j]]) * scores[experts[j]] / sum;
  }
  for (int64_t j = 0; j < r.k; ++j)
    dscores[static_cast<size_t>(experts[j])] += router.scale / sum * (static_cast<double>(dfactors[slots[j]]) - mean);
  if (!is_softmax) {
    for (int64_t e = 0; e < r.E; ++e)
      dlogits[e] = static_cast<X>(dscores[static_cast<size_t>(e)] * scores[e] * (1 - scores[e]));
    return;
  }
  double all = 0;
  for (int64_t e = 0; e < r.E; ++e) all += dscores[static_cast<size_t>(e)] * scores[e];
  const double z = 2 * z_factor * r.log_sums[t];
  for (int64_t e = 0; e < r.E; ++e)
    dlogits[e] = static_cast<X>(scores[e] * (dscores[static_cast<size_t>(e)] - all + z));
}

template <class X>
void add_router_sums(double* sums, const Pointers<X>& r, int64_t t, const models::Router& router, const double* pull,
                     double z_factor, double per_position) {
  const X* const scores = r.scores + t * r.E;
  const double all = router.score_func == config::ScoreFunc::kSoftmax ? 1 : sum_of(scores, r.E);
  for (int64_t e = 0; e < r.E; ++e) {
    const double score = static_cast<double>(scores[e]) / all;
    if (pull != nullptr) sums[kBalanceLoss] += pull[e] * score;
    if (score > 0) sums[kEntropy] -= per_position * score * std::log(score);
  }
  sums[kZLoss] += z_factor * static_cast<double>(r.log_sums[t]) * static_cast<double>(r.log_sums[t]);
}

}  // namespace

void route_gradient(const at::Tensor& dlogits_TE, const at::Tensor& dfactors_N1, const RoutingTensors& of,
                    const models::Router& router, const RoutedRows& rows, int64_t S, double per_position,
                    const at::Tensor& sums_3) {
  const trace::SpanScope span(trace::SpanKind::kOp, "route_gradient");
  if (on_gpu(dlogits_TE))
    return aten::route_gradient(dlogits_TE, dfactors_N1, of, router, rows, S, per_position, sums_3);
  with_exact(of, [&](auto zero) {
    using X = decltype(zero);
    const Pointers<X> r(of);
    X* const dlogits = flat<X>(dlogits_TE, r.T * r.E);
    const X* const dfactors = flat<const X>(dfactors_N1, r.T * r.k);
    const int64_t B = of.loads_BE.size(0);
    const Rows here(rows);
    // A token's part of a mean over sequences, and f_e times the factor of the balancing loss, of each sequence.
    std::vector<double> parts(static_cast<size_t>(B)), pull(router.balances() ? static_cast<size_t>(B * r.E) : 0);
    for (int64_t b = 0; b < B; ++b) {
      const double tokens = here.tokens(b, S);
      double& part = parts[static_cast<size_t>(b)];
      part = per_position * (static_cast<double>(S) / std::max(tokens, 1.0));
      const double share = router.balance * part * static_cast<double>(r.E) / (static_cast<double>(r.k) * tokens);
      for (int64_t e = b * r.E; !pull.empty() && tokens > 0 && e < (b + 1) * r.E; ++e)
        pull[static_cast<size_t>(e)] = share * static_cast<double>(r.loads[e]);
    }
    std::vector<double> sums(static_cast<size_t>(r.T * kNumRouterSums));  // of each row: added in one order
    at::parallel_for(0, r.T, kTokensOfTask, [&](int64_t begin, int64_t end) {
      std::vector<double> dscores(static_cast<size_t>(r.E));
      for (int64_t t = begin; t < end; ++t) {
        const int64_t sequence = here.sequence(t);
        const double part = here.is_token(t) ? parts[static_cast<size_t>(sequence)] : 0;
        const double* const of_row = pull.empty() || part == 0 ? nullptr : pull.data() + sequence * r.E;
        logits_gradient(dlogits + t * r.E, dscores, dfactors, r, t, router, of_row, router.z_loss * part);
        if (part > 0)
          add_router_sums(sums.data() + t * kNumRouterSums, r, t, router, of_row, router.z_loss * part, part);
      }
    });
    if (!sums_3.defined()) return;
    auto* const all = flat<double>(sums_3, kNumRouterSums);
    for (size_t i = 0; i < sums.size(); ++i) all[i % kNumRouterSums] += sums[i];
  });
}

void add_loads(const at::Tensor& loads_E, const RoutingTensors& of, const RoutedRows& rows) {
  if (!rows.are_padded()) return add_(loads_E, counts_of(of.ends_1E).to(at::kDouble));
  const at::Tensor chosen_TE = at::one_hot(of.experts_Tk.to(at::kLong), loads_E.size(0)).sum(1);
  const at::Tensor counts_T = rows.counts_T.narrow(0, rows.sequences.first, chosen_TE.size(0)).to(at::kDouble);
  add_(loads_E, at::mv(chosen_TE.to(at::kDouble).t(), counts_T));
}

void balance_bias(const at::Tensor& bias_N, const at::Tensor& loads_E, int64_t first, double rate,
                  const at::Tensor& decision) {
  const int64_t at = offsetof(kernels::Decision, apply);
  const at::Tensor applies = view_as(decision, at, {1}, DType::kInt32).to(at::kDouble);
  const at::Tensor own = loads_E.narrow(0, first, bias_N.numel());
  add_(bias_N, (at::sign(loads_E.mean() - own) * applies * rate).to(bias_N.scalar_type()));
}

void router_input_gradient(const at::Tensor& dx_TD, const at::Tensor& dlogits_TE, const at::Tensor& gate_ED) {
  const trace::SpanScope span(trace::SpanKind::kOp, "router_input_gradient");
  const at::Tensor gate = gate_ED.to(dlogits_TE.scalar_type());
  if (dx_TD.scalar_type() == dlogits_TE.scalar_type())
    return matmul_input_gradient(dx_TD, dlogits_TE, gate, /*accumulate=*/true);
  for (int64_t row = 0; row < dx_TD.size(0); row += kRows) {
    const int64_t count = std::min(kRows, dx_TD.size(0) - row);
    const at::Tensor dx = dx_TD.narrow(0, row, count), sum = dx.to(dlogits_TE.scalar_type());
    matmul_input_gradient(sum, dlogits_TE.narrow(0, row, count), gate, /*accumulate=*/true);
    copy_(dx, sum);
  }
}

void router_weight_gradient(const at::Tensor& dgate_ED, const at::Tensor& dlogits_TE, const at::Tensor& x_TD,
                            bool accumulate) {
  const trace::SpanScope span(trace::SpanKind::kOp, "router_weight_gradient");
  for (int64_t row = 0; row < x_TD.size(0); row += kRows) {
    const int64_t count = std::min(kRows, x_TD.size(0) - row);
    matmul_weight_gradient(dgate_ED, dlogits_TE.narrow(0, row, count),
                           x_TD.narrow(0, row, count).to(dlogits_TE.scalar_type()), accumulate || row > 0);
  }
}

}  // namespace hearth::ops
