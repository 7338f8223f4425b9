// SPDX-License-Identifier: Apache-2.0
#include "ops/moe/moe.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/error.h"
#include "ops/access.h"
#include "ops/gpu/gpu.h"
#include "ops/matmul.h"
#include "ops/moe/arrivals.h"
#include "ops/tensor.h"
#include "trace/spans.h"

namespace hearth::ops {
namespace {

constexpr int64_t kGrain = 64;   // rows of a task
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
void choose_experts(const Pointers<X>& r) {
  at::parallel_for(0, r.T, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      X* const scores = r.scores + t * r.E;
      r.log_sums[t] = softmax(scores, r.E);
      choose(r.experts + t * r.k, scores, r.E, r.k);
    }
  });
}

template <class X>
void weigh_slots(const Pointers<X>& r, const models::Router& router) {
  at::parallel_for(0, r.T, kGrain, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const X* const scores = r.scores + t * r.E;
      const int32_t* const experts = r.experts + t * r.k;
      X sum = 0;
      for (int64_t j = 0; j < r.k; ++j) sum += scores[experts[j]];
      const X factor = static_cast<X>(router.scale) / (router.normalizes ? sum : X{1});
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

template <class X>
void count_loads(const Pointers<X>& r, int64_t B, const models::SequenceRows& sequences) {
  std::fill_n(r.loads, B * r.E, X{0});
  for (int64_t i = 0; i < r.T * r.k; ++i)
    r.loads[(sequences.first + i / r.k) / sequences.each * r.E + r.experts[i]] += 1;
}

// Calls body with float or double: the type of a routing's exact numbers.
template <class Body>
void with_exact(const RoutingTensors& r, const Body& body) {
  is_float64(r.scores_TE) ? body(double()) : body(float());
}
// Calls body with the elements' type of the rows and with the routing's.
template <class Body>
void with_types(const at::Tensor& rows, const Body& body) {
  with_element_type(rows, [&](auto zero) {
    using T = decltype(zero);
    body(zero, GradientOf<T>());
  });
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

void route(const RoutingTensors& to, const at::Tensor& x_TD, const at::Tensor& gate_ED, const models::Router& router,
           const models::SequenceRows& sequences) {
  const trace::SpanScope span(trace::SpanKind::kOp, "route");
  HEARTH_CHECK(x_TD.size(0) * router.top_k <= std::numeric_limits<int32_t>::max(), "{} rows", x_TD.size(0));
  if (on_gpu(x_TD)) return aten::route(to, x_TD, gate_ED, router, sequences);
  exact_matmul(to.scores_TE, x_TD, gate_ED);
  with_exact(to, [&](auto zero) {
    const Pointers<decltype(zero)> r(to);
    choose_experts(r);
    sort_choices(r);
    weigh_slots(r, router);
    count_loads(r, to.loads_BE.size(0), sequences);
  });
}

void dispatch(const at::Tensor& rows_ND, const at::Tensor& x_TD, const RoutingTensors& by) {
  const trace::SpanScope span(trace::SpanKind::kOp, "dispatch");
  if (on_gpu(x_TD)) return aten::dispatch(rows_ND, x_TD, by);
  const int64_t N = rows_ND.size(0), k = by.experts_Tk.size(1), D = rows_ND.size(1);
  const auto* choices = flat<const int32_t>(by.choices_1N, N);
  with_element_type(x_TD, [&](auto zero) {
    using T = decltype(zero);
    const Matrix<T> rows = matrix<T>(rows_ND, N, D);
    const Matrix<const T> x = matrix<const T>(x_TD, x_TD.size(0), D);
    at::parallel_for(0, N, kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t slot = begin; slot < end; ++slot) std::copy_n(x.row(choices[slot] / k), D, rows.row(slot));
    });
  });
}

void combine(const at::Tensor& out_TD, const at::Tensor& rows_ND, const RoutingTensors& by) {
  const trace::SpanScope span(trace::SpanKind::kOp, "combine");
  if (on_gpu(rows_ND)) return aten::combine(out_TD, rows_ND, by);
  const int64_t T = out_TD.size(0), D = out_TD.size(1), k = by.slots_Tk.size(1);
  const auto* slots = flat<const int32_t>(by.slots_Tk, T * k);
  with_types(rows_ND, [&](auto zero, auto exact) {
    using V = decltype(zero);
    using X = decltype(exact);
    const Matrix<V> out = matrix<V>(out_TD, T, D);
    const Matrix<const V> rows = matrix<const V>(rows_ND, T * k, D);
    at::parallel_for(0, T, kGrain, [&](int64_t begin, int64_t end) {
      std::vector<X> sum(static_cast<size_t>(D));
      for (int64_t t = begin; t < end; ++t) {
        std::fill(sum.begin(), sum.end(), X{0});
        for (int64_t j = 0; j < k; ++j) {
          const V* const row = rows.row(slots[t * k + j]);
          for (int64_t d = 0; d < D; ++d) sum[static_cast<size_t>(d)] += static_cast<X>(row[d]);
        }
        std::transform(sum.begin(), sum.end(), out.row(t), [](X x) { return static_cast<V>(x); });
      }
    });
  });
}

void scale_slots(const at::Tensor& rows_NF, const at::Tensor& factors_N1) {
  const trace::SpanScope span(trace::SpanKind::kOp, "scale_slots");
  if (on_gpu(rows_NF)) return aten::scale_slots(rows_NF, factors_N1);
  const int64_t N = rows_NF.size(0), F = rows_NF.size(1);
  with_types(rows_NF, [&](auto zero, auto exact) {
    using V = decltype(zero);
    using X = decltype(exact);
    const Matrix<V> rows = matrix<V>(rows_NF, N, F);
    const X* const factors = flat<const X>(factors_N1, N);
    at::parallel_for(0, N, kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t slot = begin; slot < end; ++slot) {
        const X factor = factors[slot];
        std::transform(rows.row(slot), rows.row(slot) + F, rows.row(slot),
                       [factor](V v) { return static_cast<V>(factor * static_cast<X>(v)); });
      }
    });
  });
}

void factors_gradient(const at::Tensor& dfactors_N1, const at::Tensor& drows_NF, const at::Tensor& rows_NF) {
  const trace::SpanScope span(trace::SpanKind::kOp, "factors_gradient");
  if (on_gpu(rows_NF)) return aten::factors_gradient(dfactors_N1, drows_NF, rows_NF);
  const int64_t N = rows_NF.size(0), F = rows_NF.size(1);
  with_types(rows_NF, [&](auto zero, auto exact) {
    using V = decltype(zero);
    using X = decltype(exact);
    const Matrix<const V> rows = matrix<const V>(rows_NF, N, F), drows = matrix<const V>(drows_NF, N, F);
    X* const dfactors = flat<X>(dfactors_N1, N);
    at::parallel_for(0, N, kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t slot = begin; slot < end; ++slot) {
        const V *const a = rows.row(slot), *const b = drows.row(slot);
        double sum = 0;
        for (int64_t f = 0; f < F; ++f) sum += static_cast<double>(a[f]) * static_cast<double>(b[f]);
        dfactors[slot] = static_cast<X>(sum);
      }
    });
  });
}

namespace {

// One token's gradient of the logits. `dfactors` is by slots. `dscores` [E] is scratch; `pull` [E] is the balancing
// loss's gradient of the scores, or null.
template <class X>
void logits_gradient(X* dlogits, std::vector<double>& dscores, const X* dfactors, const Pointers<X>& r, int64_t t,
                     const models::Router& router, const double* pull, double z_factor) {
  const X* const scores = r.scores + t * r.E;
  const int32_t *const experts = r.experts + t * r.k, *const slots = r.slots + t * r.k;
  if (pull != nullptr) {
    std::copy_n(pull, r.E, dscores.begin());
  } else {
    std::fill(dscores.begin(), dscores.end(), 0.0);
  }
  double sum = 1, mean = 0;  // of the chosen scores; of their gradients
  if (router.normalizes) {
    sum = 0;
    for (int64_t j = 0; j < r.k; ++j) sum += scores[experts[j]];
    for (int64_t j = 0; j < r.k; ++j) mean += static_cast<double>(dfactors[slots[j]]) * scores[experts[j]] / sum;
  }
  for (int64_t j = 0; j < r.k; ++j)
    dscores[static_cast<size_t>(experts[j])] += router.scale / sum * (static_cast<double>(dfactors[slots[j]]) - mean);
  double all = 0;
  for (int64_t e = 0; e < r.E; ++e) all += dscores[static_cast<size_t>(e)] * scores[e];
  const double z = 2 * z_factor * r.log_sums[t];
  for (int64_t e = 0; e < r.E; ++e)
    dlogits[e] = static_cast<X>(scores[e] * (dscores[static_cast<size_t>(e)] - all + z));
}

template <class X>
void add_router_sums(double* sums, const Pointers<X>& r, int64_t t, const double* pull, double z_factor,
                     double per_position) {
  const X* const scores = r.scores + t * r.E;
  for (int64_t e = 0; e < r.E; ++e) {
    const auto score = static_cast<double>(scores[e]);
    if (pull != nullptr) sums[kBalanceLoss] += pull[e] * score;
    if (score > 0) sums[kEntropy] -= per_position * score * std::log(score);
  }
  sums[kZLoss] += z_factor * static_cast<double>(r.log_sums[t]) * static_cast<double>(r.log_sums[t]);
}

}  // namespace

void route_gradient(const at::Tensor& dlogits_TE, const at::Tensor& dfactors_N1, const RoutingTensors& of,
                    const models::Router& router, const models::SequenceRows& sequences, int64_t S, double per_position,
                    const at::Tensor& sums_3) {
  const trace::SpanScope span(trace::SpanKind::kOp, "route_gradient");
  if (on_gpu(dlogits_TE))
    return aten::route_gradient(dlogits_TE, dfactors_N1, of, router, sequences, S, per_position, sums_3);
  with_exact(of, [&](auto zero) {
    using X = decltype(zero);
    const Pointers<X> r(of);
    X* const dlogits = flat<X>(dlogits_TE, r.T * r.E);
    const X* const dfactors = flat<const X>(dfactors_N1, r.T * r.k);
    const int64_t B = of.loads_BE.size(0);
    // f_e times the loss's factor, of each sequence.
    std::vector<double> pull(router.balances() ? static_cast<size_t>(B * r.E) : 0);
    const double share = router.balance * per_position * static_cast<double>(r.E) / static_cast<double>(r.k * S);
    for (size_t i = 0; i < pull.size(); ++i) pull[i] = share * static_cast<double>(r.loads[i]);
    const double z_factor = router.z_loss * per_position;
    std::vector<double> sums(static_cast<size_t>(r.T * kNumRouterSums));  // of each row: added in one order
    at::parallel_for(0, r.T, kGrain, [&](int64_t begin, int64_t end) {
      std::vector<double> dscores(static_cast<size_t>(r.E));
      for (int64_t t = begin; t < end; ++t) {
        const double* const of_row =
            pull.empty() ? nullptr : pull.data() + (sequences.first + t) / sequences.each * r.E;
        logits_gradient(dlogits + t * r.E, dscores, dfactors, r, t, router, of_row, z_factor);
        add_router_sums(sums.data() + t * kNumRouterSums, r, t, of_row, z_factor, per_position);
      }
    });
    if (!sums_3.defined()) return;
    auto* const all = flat<double>(sums_3, kNumRouterSums);
    for (size_t i = 0; i < sums.size(); ++i) all[i % kNumRouterSums] += sums[i];
  });
}

void add_loads(const at::Tensor& loads_E, const at::Tensor& ends_1E) {
  add_(loads_E, counts_of(ends_1E).to(at::kDouble));
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

namespace {

// Calls body(expert, first row, rows) for each expert.
template <class Body>
void for_experts(const at::Tensor& ends_1E, const Body& body) {
  const at::Tensor here = ends_1E.cpu();
  const int64_t E = here.numel();
  const auto* ends = flat<const int32_t>(here, E);
  for (int64_t e = 0, begin = 0; e < E; begin = ends[e++]) body(e, begin, ends[e] - begin);
}
// The matrix of an expert.
at::Tensor matrix_of(const at::Tensor& w, int64_t expert, int64_t experts) {
  const int64_t rows = w.size(0) / experts;
  return w.narrow(0, expert * rows, rows);
}

}  // namespace

void experts_matmul(const at::Tensor& out, const at::Tensor& x, const at::Tensor& w, const at::Tensor& ends_1E) {
  for_experts(ends_1E, [&](int64_t expert, int64_t begin, int64_t rows) {
    if (rows > 0) matmul(out.narrow(0, begin, rows), x.narrow(0, begin, rows), matrix_of(w, expert, ends_1E.numel()));
  });
}

void experts_input_gradient(const at::Tensor& dx, const at::Tensor& dy, const at::Tensor& w,
                            const at::Tensor& ends_1E) {
  for_experts(ends_1E, [&](int64_t expert, int64_t begin, int64_t rows) {
    if (rows > 0)
      matmul_input_gradient(dx.narrow(0, begin, rows), dy.narrow(0, begin, rows), matrix_of(w, expert, ends_1E.numel()),
                            /*accumulate=*/false);
  });
}

void experts_weight_gradient(const at::Tensor& dw, const at::Tensor& dy, const at::Tensor& x, const at::Tensor& ends_1E,
                             bool accumulate) {
  for_experts(ends_1E, [&](int64_t expert, int64_t begin, int64_t rows) {
    const at::Tensor own = matrix_of(dw, expert, ends_1E.numel());
    if (rows > 0) return matmul_weight_gradient(own, dy.narrow(0, begin, rows), x.narrow(0, begin, rows), accumulate);
    if (!accumulate) zero_(own);
  });
}

}  // namespace hearth::ops
