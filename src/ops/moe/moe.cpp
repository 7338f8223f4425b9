// SPDX-License-Identifier: Apache-2.0
#include "ops/moe/moe.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "ops/access.h"
#include "ops/gpu/gpu.h"
#include "ops/matmul.h"
#include "ops/rows.h"
#include "ops/tensor.h"
#include "trace/spans.h"

namespace hearth::ops {
namespace {

constexpr int64_t kGrain = 64;  // rows of a task

// Calls body with the elements' type of the rows and with the routing's.
template <class Body>
void with_types(const at::Tensor& rows, const Body& body) {
  with_element_type(rows, [&](auto zero) {
    using T = decltype(zero);
    body(zero, GradientOf<T>());
  });
}

}  // namespace

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

void combine(const at::Tensor& out_TD, const at::Tensor& rows_ND, const RoutingTensors& by, bool adds) {
  const trace::SpanScope span(trace::SpanKind::kOp, "combine");
  if (on_gpu(rows_ND)) return aten::combine(out_TD, rows_ND, by, adds);
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
        if (adds) std::transform(out.row(t), out.row(t) + D, sum.begin(), [](V v) { return static_cast<X>(v); });
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

namespace {

// The bias of an expert.
at::Tensor bias_of(const at::Tensor& biases, int64_t expert, int64_t experts) {
  const int64_t width = biases.numel() / experts;
  return biases.narrow(0, expert * width, width);
}

}  // namespace

void add_experts_bias(const at::Tensor& x, const at::Tensor& bias, const at::Tensor& ends_1E,
                      const at::Tensor& factors_M1) {
  const trace::SpanScope span(trace::SpanKind::kOp, "add_experts_bias");
  for_experts(ends_1E, [&](int64_t expert, int64_t begin, int64_t rows) {
    if (rows == 0) return;
    const at::Tensor own = x.narrow(0, begin, rows), b = bias_of(bias, expert, ends_1E.numel());
    if (!factors_M1.defined()) return add_bias(own, b);
    const at::Tensor factors = factors_M1.narrow(0, begin, rows);
    copy_(own, own.to(factors.scalar_type()) + factors * b.to(factors.scalar_type()));
  });
}

void experts_bias_gradient(const at::Tensor& dbias, const at::Tensor& dx, const at::Tensor& ends_1E,
                           const at::Tensor& factors_M1) {
  const trace::SpanScope span(trace::SpanKind::kOp, "experts_bias_gradient");
  for_experts(ends_1E, [&](int64_t expert, int64_t begin, int64_t rows) {
    if (rows == 0) return;
    const at::Tensor own = dx.narrow(0, begin, rows), to = bias_of(dbias, expert, ends_1E.numel());
    if (!factors_M1.defined()) return bias_gradient(to, own);
    const at::Tensor factors = factors_M1.narrow(0, begin, rows);
    bias_gradient(to, own.to(factors.scalar_type()) * factors);
  });
}

void bias_factors_gradient(const at::Tensor& dfactors_M1, const at::Tensor& dx, const at::Tensor& bias,
                           const at::Tensor& ends_1E) {
  const trace::SpanScope span(trace::SpanKind::kOp, "bias_factors_gradient");
  for_experts(ends_1E, [&](int64_t expert, int64_t begin, int64_t rows) {
    if (rows == 0) return;
    const at::Tensor own = dx.narrow(0, begin, rows), b = bias_of(bias, expert, ends_1E.numel());
    const at::ScalarType exact = dfactors_M1.scalar_type();
    add_(dfactors_M1.narrow(0, begin, rows), (own.to(exact) * b.to(exact)).sum(-1, /*keepdim=*/true));
  });
}

}  // namespace hearth::ops
