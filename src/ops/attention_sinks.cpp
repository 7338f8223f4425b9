// SPDX-License-Identifier: Apache-2.0
// The sinks of attention (attention.h), by ATen on any device: a pass over attention's output, which is small next to
// attention itself.
#include <ATen/TensorOperators.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/logaddexp.h>

#include <algorithm>

#include "ops/attention.h"
#include "ops/tensor.h"
#include "trace/spans.h"

namespace hearth::ops {
namespace {

constexpr int64_t kQueries = 1024;  // at a time, which bounds the memory of what is between

// Some queries of a sequence.
struct Queries {
  int64_t sequence, first, count;
  at::Tensor heads(const at::Tensor& x_BQHK) const { return x_BQHK.select(0, sequence).narrow(0, first, count); }
  at::Tensor sums(const at::Tensor& lse_BHQ) const { return lse_BHQ.select(0, sequence).narrow(1, first, count); }
};
template <class Body>
void for_queries(const at::Tensor& lse_BHQ, const Body& body) {
  const int64_t Q = lse_BHQ.size(2);
  for (int64_t b = 0; b < lse_BHQ.size(0); ++b)
    for (int64_t first = 0; first < Q; first += kQueries) body(Queries{b, first, std::min(kQueries, Q - first)});
}

at::Tensor as_exact(const at::Tensor& x, const at::Tensor& lse) { return x.to(lse.scalar_type()); }

}  // namespace

void add_sinks(const at::Tensor& out_BQHK, const at::Tensor& lse_BHQ, const at::Tensor& sinks_H) {
  const trace::SpanScope span(trace::SpanKind::kOp, "add_sinks");
  const at::Tensor sinks_H1 = as_exact(sinks_H, lse_BHQ).unsqueeze(-1);
  for_queries(lse_BHQ, [&](const Queries& of) {
    const at::Tensor out = of.heads(out_BQHK), lse = of.sums(lse_BHQ), all = at::logaddexp(lse, sinks_H1);
    copy_(out, as_exact(out, lse) * at::exp(lse - all).t().unsqueeze(-1));
    copy_(lse, all);
  });
}

void sinks_gradient(const at::Tensor& dsinks_H, const at::Tensor& dout_BQHK, const at::Tensor& out_BQHK,
                    const at::Tensor& lse_BHQ, const at::Tensor& sinks_H) {
  const trace::SpanScope span(trace::SpanKind::kOp, "sinks_gradient");
  const at::Tensor sinks_H1 = as_exact(sinks_H, lse_BHQ).unsqueeze(-1);
  for_queries(lse_BHQ, [&](const Queries& of) {
    const at::Tensor lse = of.sums(lse_BHQ);
    const at::Tensor products_QH = (as_exact(of.heads(dout_BQHK), lse) * as_exact(of.heads(out_BQHK), lse)).sum(-1);
    add_(dsinks_H, (at::exp(sinks_H1 - lse) * products_QH.t()).sum(-1).neg());
  });
}

}  // namespace hearth::ops
